package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/infra/secrets"
	"everloop/internal/clients"
	"everloop/internal/testkit"
)

const password = "a password of the test"

func open(t *testing.T, database string, change func(*identity.Config)) *httptest.Server {
	t.Helper()

	server, _ := openService(t, database, change)

	return server
}

func openService(t *testing.T, database string, change func(*identity.Config)) (*httptest.Server, *identity.Service) {
	t.Helper()

	box, err := secrets.NewBox(strings.Repeat("k", 32))
	require.NoError(t, err)

	cfg := identity.Config{
		DatabaseURL: database, Box: box, Issuer: "http://id.example", TokenTTL: 10 * time.Minute, SessionTTL: time.Hour,
		KeyRotation: time.Hour, UserGuesses: 5, AddressGuesses: 1000, PasswordMemory: 64,
		FirstPassword: func() (string, error) { return password, nil },
	}
	if change != nil {
		change(&cfg)
	}

	service, err := identity.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(service.Close)
	server := httptest.NewServer(service.Handler())
	t.Cleanup(server.Close)

	return server, service
}

func TestOpen_passwordsTakeTheAdvisedMemory(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	open(t, database, func(c *identity.Config) { c.PasswordMemory = 0 })
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)

	defer conn.Close(context.WithoutCancel(t.Context()))

	var hash string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT password_hash FROM identity.users").Scan(&hash))
	require.Contains(t, hash, "$argon2id$v=19$m=47104,t=1,p=1$")
}

type reply struct {
	status int
	body   map[string]any
	header http.Header
}

func send(t *testing.T, method, url string, body any, headers map[string]string) reply {
	t.Helper()

	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, bytes.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")

	for name, value := range headers {
		r.Header.Set(name, value)
	}

	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)

	return decoded(t, response)
}

func decoded(t *testing.T, response *http.Response) reply {
	t.Helper()

	defer response.Body.Close()

	out := reply{status: response.StatusCode, header: response.Header, body: map[string]any{}}
	_ = json.NewDecoder(response.Body).Decode(&out.body)

	return out
}

func login(t *testing.T, server *httptest.Server, username, secret string) reply {
	t.Helper()
	return send(t, http.MethodPost, server.URL+"/api/v1/auth/login", map[string]string{"username": username, "password": secret}, nil)
}

func bearer(r reply) map[string]string {
	token, _ := r.body["access_token"].(string)
	return map[string]string{"Authorization": "Bearer " + token}
}

func TestService_Open_severalAtOnce(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)

	var wg sync.WaitGroup

	servers := make([]*httptest.Server, 3)
	for i := range servers {
		wg.Go(func() { servers[i] = open(t, database, nil) })
	}

	wg.Wait()

	for _, server := range servers {
		in := login(t, server, "ADMIN", password)
		require.Equal(t, http.StatusOK, in.status, in.body)
		require.Equal(t, http.StatusOK, send(t, http.MethodGet, servers[0].URL+"/api/v1/auth/me", nil, bearer(in)).status,
			"a token of one process holds at another")
	}
}

func TestService_login_manyAtOnce(t *testing.T) {
	t.Parallel()
	server := open(t, testkit.Postgres(t), func(c *identity.Config) { c.UserGuesses = 100 })

	var wg sync.WaitGroup

	// More than are hashed at once. With the race detector a busy machine takes seconds for
	// each hash, and the last must have its turn within the time of a request.
	statuses := make([]int, 10)
	for i := range statuses {
		wg.Go(func() { statuses[i] = login(t, server, "admin", password).status })
	}

	wg.Wait()

	for _, status := range statuses {
		require.Equal(t, http.StatusOK, status)
	}
}

func TestService_login_throttledAcrossRestart(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	guess := func(server *httptest.Server) (refused int) {
		for range 8 {
			if r := login(t, server, "nosuchuser", "wrong"); r.status == http.StatusTooManyRequests {
				require.NotEmpty(t, r.header.Get("Retry-After"))

				refused++
			}
		}

		return refused
	}
	// One guess a minute, of which a machine however slow has none left for 16 of them.
	slow := func(c *identity.Config) { c.UserGuesses = 1 }
	require.GreaterOrEqual(t, guess(open(t, database, slow)), 1)
	require.GreaterOrEqual(t, guess(open(t, database, slow)), 1)

	alone := open(t, database, func(c *identity.Config) { c.AddressGuesses = 1 })
	require.Equal(t, http.StatusUnauthorized, login(t, alone, "one", "wrong").status)
}

func TestService_defaultPersonalToken_keptSealed(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	server := open(t, database, nil)
	in := login(t, server, "admin", password)

	var wg sync.WaitGroup

	tokens := make([]string, 8)
	for i := range tokens {
		wg.Go(func() {
			tokens[i], _ = send(t, http.MethodGet, server.URL+"/api/v1/pat/v3/default", nil, bearer(in)).body["token"].(string)
		})
	}

	wg.Wait()

	for _, token := range tokens {
		require.Equal(t, tokens[0], token)
	}

	require.NotEmpty(t, tokens[0])

	conn, err := pgx.Connect(t.Context(), database)

	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))

	var dump string
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT (SELECT string_agg(t::text || encode(t.sealed, 'escape'), ' ') FROM identity.personal_tokens t)
		    || (SELECT string_agg(u::text, ' ') FROM identity.users u)
		    || (SELECT string_agg(s::text, ' ') FROM identity.sessions s)`).Scan(&dump))
	require.NotContains(t, dump, tokens[0])
	require.NotContains(t, dump, password)

	by := map[string]string{"Authorization": "Bearer " + tokens[0]}
	require.Equal(t, http.StatusConflict, send(t, http.MethodPost, server.URL+"/api/v1/auth/logout", map[string]any{}, by).status)
	require.Equal(t, http.StatusNoContent, send(t, http.MethodDelete, server.URL+"/api/v1/pat/v3/default", nil, by).status)
	require.Equal(t, http.StatusUnauthorized, send(t, http.MethodGet, server.URL+"/api/v1/auth/me", nil, by).status)
}

func TestService_changePassword(t *testing.T) {
	t.Parallel()
	server := open(t, testkit.Postgres(t), func(c *identity.Config) { c.UserGuesses = 100 })
	here, elsewhere := login(t, server, "admin", password), login(t, server, "admin", password)
	try := func(current, next string) reply {
		return send(t, http.MethodPost, server.URL+"/api/v1/auth/password",
			map[string]string{"current_password": current, "new_password": next}, bearer(here))
	}
	change := func(current, next string) int { return try(current, next).status }
	wrong := try("wrong", "another password")
	require.Equal(t, http.StatusUnauthorized, wrong.status)
	require.Equal(t, "password_wrong", wrong.body["code"], "the sign-in holds")
	require.Equal(t, "body.current_password", location(try("", "another password")))
	require.Equal(t, http.StatusUnprocessableEntity, change(password, "short"))
	require.Equal(t, http.StatusNoContent, change(password, "another password"))

	me := func(r reply) int { return send(t, http.MethodGet, server.URL+"/api/v1/auth/me", nil, bearer(r)).status }
	require.Equal(t, http.StatusOK, me(here))
	require.Equal(t, http.StatusUnauthorized, me(elsewhere))
	require.Equal(t, http.StatusUnauthorized, login(t, server, "admin", password).status)
	require.Equal(t, http.StatusOK, login(t, server, "admin", "another password").status)
}

func TestService_deleteUser_lastAdministratorStays(t *testing.T) {
	t.Parallel()
	server := open(t, testkit.Postgres(t), nil)
	in := login(t, server, "admin", password)
	id, _ := send(t, http.MethodGet, server.URL+"/api/v1/auth/me", nil, bearer(in)).body["id"].(string)
	require.NotEmpty(t, id)
	r := send(t, http.MethodDelete, server.URL+"/api/v1/users/"+id, nil, bearer(in))
	require.Equal(t, http.StatusConflict, r.status)
	require.Equal(t, "last_administrator", r.body["code"])
}

// Cookies are for HTTPS where the browser came by it: by the issuer's URL, or by what a
// trusted proxy says, and no other client.
func TestService_cookies_secure(t *testing.T) {
	t.Parallel()

	proxies, err := clients.ParseProxies([]string{"127.0.0.1"})
	require.NoError(t, err)

	database := testkit.Postgres(t)
	for name, c := range map[string]struct {
		issuer, proto string
		proxies       clients.Proxies
		secure        bool
	}{
		"plain":                    {"http://id.example", "", proxies, false},
		"issuer":                   {"https://id.example", "", nil, true},
		"trusted proxy":            {"http://id.example", "https", proxies, true},
		"trusted proxy, plain":     {"http://id.example", "http", proxies, false},
		"what another client says": {"http://id.example", "https", nil, false},
	} {
		server := open(t, database, func(cfg *identity.Config) { cfg.Issuer, cfg.Proxies = c.issuer, c.proxies })
		in := send(t, http.MethodPost, server.URL+"/api/v1/auth/login", map[string]string{"username": "admin", "password": password},
			map[string]string{"X-Forwarded-Proto": c.proto})
		require.Equal(t, http.StatusOK, in.status, in.body)

		out := send(t, http.MethodPost, server.URL+"/api/v1/auth/logout", map[string]any{}, map[string]string{
			"Authorization": bearer(in)["Authorization"], "X-Forwarded-Proto": c.proto,
		})
		require.Equal(t, http.StatusNoContent, out.status, out.body)

		// Each cookie counts under the name of its scheme alone, and is not removed by the logout of others.
		again := send(t, http.MethodPost, server.URL+"/api/v1/auth/login", map[string]string{"username": "admin", "password": password},
			map[string]string{"X-Forwarded-Proto": c.proto})
		for _, line := range again.header.Values("Set-Cookie") {
			pair, attributes, _ := strings.Cut(line, "; ")
			given, value, _ := strings.Cut(pair, "=")
			bare := strings.TrimPrefix(given, "__Host-")
			require.Equal(t, c.secure, given != bare, "%s: %s", name, given)
			require.Equal(t, c.secure || bare == "everloop_session", strings.HasPrefix(attributes, "Path=/;"), "%s: %s", name, line)
			require.NotContains(t, attributes, "Domain")

			method, path := http.MethodGet, "/api/v1/auth/me"
			if bare == "everloop_refresh" {
				method, path = http.MethodPost, "/api/v1/auth/refresh"
			}

			for _, sent := range []string{map[bool]string{true: bare, false: "__Host-" + bare}[c.secure], given} {
				answer := send(t, method, server.URL+path, nil, map[string]string{
					"Cookie": sent + "=" + value, "X-Forwarded-Proto": c.proto,
				})
				want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[sent == given]
				require.Equal(t, want, answer.status, "%s: %s", name, sent)
			}
		}

		cookies := append(in.header.Values("Set-Cookie"), out.header.Values("Set-Cookie")...)
		require.Len(t, cookies, 4, name)

		for _, cookie := range cookies {
			require.Equal(t, c.secure, strings.Contains(cookie, "; Secure"), "%s: %s", name, cookie)
		}
	}
}

// Wrong keys of one client are not passed on to the agent, which counts all of them as
// this service's.
func TestService_keys_guesses(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)

		if r.Header.Get("Authorization") != "Bearer right" || r.Header.Get("X-Forwarded-For") != "198.51.100.2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		_, _ = w.Write([]byte(`{"id":"ann","administrator":true}`))
	}))
	t.Cleanup(agent.Close)

	proxies, err := clients.ParseProxies([]string{"127.0.0.1"})
	require.NoError(t, err)
	server := open(t, testkit.Postgres(t), func(cfg *identity.Config) { cfg.AgentURL, cfg.Proxies = agent.URL, proxies })

	list := func(client, key string) reply {
		return send(t, http.MethodGet, server.URL+"/api/v1/users", nil, map[string]string{
			"Authorization": "Bearer " + key, "X-Forwarded-For": client,
		})
	}
	for i := range 40 {
		list("198.51.100.1", "wrong-"+strconv.Itoa(i))
	}

	require.EqualValues(t, 30, asked.Load())

	refused := list("198.51.100.1", "another")
	require.Equal(t, http.StatusTooManyRequests, refused.status, refused.body)
	require.Equal(t, "too_many_guesses", refused.body["code"])
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, list("198.51.100.2", "right").status)
}

// A limit of the agent is one for the client of this service, too, with the same wait.
func TestService_keys_limitOfTheAgent(t *testing.T) {
	t.Parallel()

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer wait-"); wait != "unnamed" {
			w.Header().Set("Retry-After", wait)
		}

		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(agent.Close)

	server := open(t, testkit.Postgres(t), func(cfg *identity.Config) { cfg.AgentURL = agent.URL })

	for key, wait := range map[string]string{"wait-17": "17", "wait-unnamed": "1", "wait--1": "1", "wait-99999": "3600"} {
		refused := send(t, http.MethodGet, server.URL+"/api/v1/users", nil, map[string]string{"Authorization": "Bearer " + key})
		require.Equal(t, http.StatusTooManyRequests, refused.status, "%s: %v", key, refused.body)
		require.Equal(t, "rate_limited", refused.body["code"], key)
		require.Equal(t, wait, refused.header.Get("Retry-After"), key)
	}
}
