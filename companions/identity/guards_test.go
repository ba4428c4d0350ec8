package identity_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/companions/identity/upstream"
	"everloop/internal/clients"
)

// exec changes the database of a place, to what only time would change.
func (p *place) exec(statement string, args ...any) {
	p.t.Helper()

	conn, err := pgx.Connect(p.t.Context(), p.database)
	require.NoError(p.t, err)

	defer func() { _ = conn.Close(p.t.Context()) }()

	_, err = conn.Exec(p.t.Context(), statement, args...)
	require.NoError(p.t, err)
}

// count returns the number that a statement reads from the database of a place.
func (p *place) count(statement string) int {
	p.t.Helper()

	conn, err := pgx.Connect(p.t.Context(), p.database)
	require.NoError(p.t, err)

	defer func() { _ = conn.Close(p.t.Context()) }()

	var n int
	require.NoError(p.t, conn.QueryRow(p.t.Context(), statement).Scan(&n))

	return n
}

// Who has the password must not find the code within weeks: a day has few guesses, however
// many a minute has. A recovery code opens the account all the same.
func TestService_totp_guessesOfADay(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *identity.Config) { c.UserGuesses = 1000 })
	p.user("eve", nil)
	secret, recovery := p.protect(p.login("eve", password))

	v := newVisitor(t, p.server)
	challenge := v.signIn("eve").hidden(t, "challenge")
	try := func(code string) int {
		return v.post("/signin/code", url.Values{"challenge": {challenge}, "code": {code}}).status
	}

	refused := 0
	for refused < 100 && try("abcdef") == http.StatusUnauthorized {
		refused++
	}

	require.Equal(t, 100, refused)
	require.Equal(t, http.StatusTooManyRequests, try("abcdef"))
	require.Equal(t, http.StatusTooManyRequests, try(codeOf(t, secret, 1)))

	p.exec(`UPDATE identity.guesses SET at = at - interval '2 hours'`)
	require.Equal(t, http.StatusUnauthorized, try("abcdef"), "two hours fill some of it")
	require.Equal(t, http.StatusSeeOther, try(recovery[0]))
}

// Wrong passwords count for the address that they come from. Those of many addresses count
// for all, but not where the user signed in before: no guesses lock a user out permanently.
func TestService_login_guessesOfOthers(t *testing.T) {
	t.Parallel()

	proxies, err := clients.ParseProxies([]string{"127.0.0.1"})
	require.NoError(t, err)

	p := newPlace(t, func(c *identity.Config) { c.UserGuesses, c.Proxies = 1, proxies })
	try := func(address, secret string) int {
		return send(t, http.MethodPost, p.server.URL+"/api/v1/auth/login", map[string]string{"username": "Admin", "password": secret},
			map[string]string{"X-Forwarded-For": address}).status
	}

	refused := 0
	for range 10 {
		if try("198.51.100.1", "wrong") == http.StatusTooManyRequests {
			refused++
		}
	}

	require.Positive(t, refused)
	require.Equal(t, http.StatusOK, try("2001:db8::1", password), "another address")

	const most = 200

	from := 0
	for from < most && try(fmt.Sprintf("198.51.100.%d", 2+from), "wrong") == http.StatusUnauthorized {
		from++
	}

	require.Less(t, from, most, "all addresses together have a bound, too")

	p.exec(`UPDATE identity.guesses SET left_ = 0, at = now() + interval '1 hour' WHERE key = 'name admin'`)
	require.Equal(t, http.StatusTooManyRequests, try("203.0.113.1", password))
	require.Equal(t, http.StatusOK, try("2001:db8::2", password), "an address of an earlier sign-in")

	p.exec(`UPDATE identity.sessions SET ended_at = now(), ended_by = 'logout'`)
	require.Equal(t, http.StatusOK, try("2001:db8::3", password), "also after a sign-out")
}

// Without a password it is a recent sign-in that confirms how the person signs in.
func TestUpstream_changesNeedARecentSignIn(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	v := newVisitor(t, p.server)
	e.signIn(v)

	for path, form := range map[string]url.Values{"/account/totp": {}, "/account/links": {"provider": {"corp"}}} {
		require.Equal(t, http.StatusOK, v.post(path, form).status, path)
		p.exec(`UPDATE identity.sessions SET signed_in_at = now() - interval '16 minutes'`)

		refused := v.post(path, form)
		require.Equal(t, http.StatusForbidden, refused.status, path)
		require.Contains(t, refused.text, "sign out and in again")
		p.exec(`UPDATE identity.sessions SET signed_in_at = now()`)
	}

	var made struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(v.get("/api/v1/pat/v3/default").text), &made))

	refused := send(t, http.MethodPost, p.server.URL+"/api/v1/auth/totp", map[string]any{},
		map[string]string{"Authorization": "Bearer " + made.Token})
	require.Equal(t, http.StatusForbidden, refused.status, "a personal token is no sign-in")
	require.Equal(t, "recent_sign_in_required", refused.body["code"])
}

// An administrator takes from an account the ways in that another may have added.
func TestUpstream_administratorRemovesLinks(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	require.Equal(t, http.StatusSeeOther, e.signIn(newVisitor(t, p.server)).status)

	id, _ := items(p.as(p.admin, http.MethodGet, "/api/v1/users?q=eve", nil))[0]["id"].(string)
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id+"/links", nil).status)
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id+"/passkeys", nil).status)
	require.Equal(t, http.StatusConflict, e.signIn(newVisitor(t, p.server)).status, "the account is theirs no more")
	require.Subset(t, p.actions(), []string{"link.remove_all", "passkey.remove_all"})
}

func TestUpstream_linkNeedsThePassword(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	p.user("owner", nil)

	v := newVisitor(t, p.server)
	v.signIn("owner")

	for _, wrong := range []string{"", "a wrong password"} {
		refused := v.post("/account/links", url.Values{"provider": {"corp"}, "password": {wrong}})
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusUnprocessableEntity}, refused.status)
		require.Empty(t, refused.header.Get("Refresh"))
		require.Empty(t, refused.header.Values("Set-Cookie"))
	}

	require.Zero(t, e.visits.Load())
}

// A provider that names itself in its answers must do so in each: one without could be of
// another provider.
func TestUpstream_namedAnswers(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.named = true
	p := newPlace(t, e.with(nil))

	require.Equal(t, http.StatusUnauthorized, e.signIn(newVisitor(t, p.server)).status)

	v := newVisitor(t, p.server)
	answer := e.answer(v.get("/signin/with/corp").to)
	answer.Set("iss", e.server.URL)
	require.Equal(t, http.StatusSeeOther, v.get("/signin/callback/corp?"+answer.Encode()).status)
}

// What a provider says of the e-mail address may be no text that can be kept.
func TestUpstream_oddEmail(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	require.Equal(t, http.StatusSeeOther, e.signIn(newVisitor(t, p.server)).status)

	e.claims["email"] = "a\x00@example.org"
	require.Equal(t, http.StatusSeeOther, e.signIn(newVisitor(t, p.server)).status)

	e.claims["sub"] = "another"
	require.Equal(t, http.StatusForbidden, e.signIn(newVisitor(t, p.server)).status)
}

// Each answer makes the service ask the provider: an address has few that are refused.
func TestUpstream_throttled(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, func(c *identity.Config) {
		e.with(func(*upstream.Provider) {})(c)
		c.AddressGuesses = 2
	})
	e.claims["aud"] = "x"

	statuses := map[int]int{}
	for range 10 {
		statuses[e.signIn(newVisitor(t, p.server)).status]++
	}

	require.Positive(t, statuses[http.StatusUnauthorized])
	require.Positive(t, statuses[http.StatusTooManyRequests])
	require.Len(t, statuses, 2)
}

// An API key of the agent opens no more than the account that it belongs to.
func TestService_apiKey_followsItsAccount(t *testing.T) {
	t.Parallel()

	var subject atomic.Value

	subject.Store("")

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := map[string]any{"id": "u1", "administrator": true, "issuer": "http://id.example", "subject": subject.Load()}
		if r.Header.Get("Authorization") == "Bearer el_scoped" {
			said["scopes"] = []string{"admin"}
		}

		_ = json.NewEncoder(w).Encode(said)
	}))
	t.Cleanup(agent.Close)

	p := newPlace(t, func(c *identity.Config) { c.AgentURL = agent.URL })
	list := func(key string) reply {
		return send(t, http.MethodGet, p.server.URL+"/api/v1/users", nil, map[string]string{"Authorization": "Bearer " + key})
	}
	is := func(id string) { subject.Store(id) }
	change := func(id string, fields map[string]any) {
		require.Equal(t, http.StatusOK, p.as(p.admin, http.MethodPatch, "/api/v1/users/"+id, fields).status)
	}

	boss := p.user("boss", map[string]any{"administrator": true})
	is(boss)
	require.Equal(t, http.StatusOK, list("el_one").status)
	require.Equal(t, http.StatusOK, list("el_scoped").status)

	// Each question has another key: an answer of the agent is used for some seconds.
	change(boss, map[string]any{"administrator": false})

	refused := list("el_two")
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Equal(t, "administrator_required", refused.body["code"])

	change(boss, map[string]any{"administrator": true, "disabled": true})
	require.Equal(t, http.StatusUnauthorized, list("el_three").status)
	is("nothing")
	require.Equal(t, http.StatusUnauthorized, list("el_four").status)
}
