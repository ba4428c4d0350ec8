package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

func TestKeysOverTheInterface(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.do("POST", "/api/user/api-keys", w.ann, `{"name":"ci","scopes":["chat","sessions:read"],"expires_at":"2099-01-01T00:00:00Z"}`)
	require.Equal(t, 201, r.status)
	made := r.json()
	plaintext, key := made["plaintext"].(string), made["key"].(map[string]any)
	require.Regexp(t, `^el_[0-9A-Za-z]{27,}$`, plaintext)
	require.Equal(t, plaintext, key["plaintext"])
	masked := key["masked"].(string)
	require.True(t, strings.HasPrefix(masked, plaintext[:6]) && strings.HasSuffix(masked, plaintext[len(plaintext)-4:]))
	require.NotContains(t, masked, plaintext[6:len(plaintext)-4])

	path := "/api/user/api-keys/" + key["id"].(string)

	read := w.do("GET", path, w.ann, "")
	require.Nil(t, read.json()["plaintext"])
	require.Nil(t, read.json()["last_used_at"])
	require.Nil(t, read.json()["last_used_ip"])
	require.NotContains(t, w.do("GET", "/api/user/api-keys", w.ann, "").text+read.text, plaintext)

	require.Equal(t, 200, w.do("GET", "/api/auth/me", plaintext, "").status)
	require.Equal(t, 200, w.do("GET", "/api/sessions", plaintext, "").status)
	w.do("POST", "/api/sessions", plaintext, `{}`).code(403, "scope_missing")
	w.do("POST", "/api/user/api-keys", plaintext, `{"name":"more"}`).code(403, "scope_missing")
	require.Eventually(t, func() bool { return w.do("GET", path, w.ann, "").json()["last_used_at"] != nil }, timeout, tick)
	require.Equal(t, "127.0.0.1", w.do("GET", path, w.ann, "").json()["last_used_ip"])

	require.Equal(t, "renamed", w.do("PATCH", path, w.ann, `{"name":"renamed"}`).json()["name"])
	require.Equal(t, 204, w.do("DELETE", path, w.ann, "").status)
	w.do("GET", "/api/auth/me", plaintext, "").code(401, "unauthorized")
	w.do("GET", path, w.ann, "").code(404, "api_key_not_found")
}

func TestUsersOverTheInterface(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.do("POST", "/api/admin/users", w.root, `{"username":"Eve","name":"Eve E.","email":"eve@example.org","administrator":null,
		"avatar_url":"https://people.example.org/eve.png"}`)
	require.Equal(t, 201, r.status)
	user := r.json()["user"].(map[string]any)
	require.Equal(t, "Eve", user["username"])
	require.Equal(t, false, user["administrator"])

	plaintext := r.json()["api_key"].(map[string]any)["plaintext"].(string)
	me := w.do("GET", "/api/auth/me", plaintext, "").json()
	require.Equal(t, user["id"], me["id"])
	require.Equal(t, "https://people.example.org/eve.png", me["avatar_url"])
	w.do("POST", "/api/admin/users", w.root, `{"username":"eve"}`).code(409, "username_taken")
	require.Len(t, w.do("GET", "/api/admin/users", w.root, "").json()["items"], 4)
	require.Equal(t, map[string]any{"ok": true}, w.do("DELETE", "/api/admin/users/"+user["id"].(string), w.root, "").json())
	w.do("GET", "/api/auth/me", plaintext, "").code(401, "unauthorized")
	root := w.do("GET", "/api/auth/me", w.root, "").json()["id"].(string)
	w.do("DELETE", "/api/admin/users/"+root, w.root, "").code(409, "last_administrator")
}

func TestIdempotencyOverTheInterface(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := func(k string) with { return header("Idempotency-Key", k) }

	t.Run("the first answer again", func(t *testing.T) {
		first := w.do("POST", "/api/sessions", w.ann, `{"intent":"x"}`, key("a"))
		again := w.do("POST", "/api/sessions", w.ann, `{"intent":"x"}`, key("a"))
		require.Equal(t, first.text, again.text)
		require.Equal(t, first.status, again.status)
		require.Equal(t, first.header.Get("Content-Type"), again.header.Get("Content-Type"))
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		require.NotEqual(t, first.header.Get("X-Request-Id"), again.header.Get("X-Request-Id"))
		w.do("POST", "/api/sessions", w.ann, `{"intent":"y"}`, key("a")).code(409, "idempotency_key_reused")
		w.do("POST", "/api/admin/users", w.root, `{"username":"zoe"}`, key("a")) // another user's key
		require.NotEqual(t, first.text, w.do("POST", "/api/sessions", w.bob, `{"intent":"x"}`, key("a")).text)
	})
	t.Run("a secret is not kept", func(t *testing.T) {
		require.Equal(t, 201, w.do("POST", "/api/user/api-keys/", w.ann, `{"name":"k"}`, key("s")).status)
		w.do("POST", "/api/user/api-keys/", w.ann, `{"name":"k"}`, key("s")).code(409, "idempotency_secret_not_kept")

		var kept int
		require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM idempotency_keys
			WHERE convert_from(response, 'UTF8') LIKE '%el\_%'`).Scan(&kept))
		require.Zero(t, kept)
	})
	t.Run("a refusal leaves the key free", func(t *testing.T) {
		w.do("POST", "/api/sessions", w.ann, `{"intent":5}`, key("f")).problem(422)
		require.Equal(t, 200, w.do("POST", "/api/sessions", w.ann, `{"intent":"5"}`, key("f")).status)
	})
	t.Run("of many at once one runs", func(t *testing.T) {
		var mu sync.Mutex

		ids := map[string]bool{}

		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				r := w.do("POST", "/api/sessions", w.ann, `{"intent":"once"}`, key("c"))

				mu.Lock()
				defer mu.Unlock()

				if r.status == 200 {
					ids[r.text] = true
				} else {
					r.code(409, "idempotency_key_in_use")
				}
			})
		}

		all.Wait()
		require.Len(t, ids, 1)
		require.EqualValues(t, 1, w.do("GET", "/api/sessions?q=once", w.ann, "").json()["total"])
	})
	w.do("POST", "/api/sessions", w.ann, `{}`, key(strings.Repeat("k", 256))).problem(422)
}

func TestErrorsRepeatNothing(t *testing.T) {
	t.Parallel()

	w := newWorld(t)
	for _, body := range []string{
		`{"name": 5, "x":"hunter2"}`, `{"name":"hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunter2"}`, `{"name":"a","scopes":["hunter2"]}`,
		`hunter2`, `{"name":"a","expires_at":"hunter2"}`, `["hunter2"]`,
	} {
		r := w.do("POST", "/api/user/api-keys/?q=hunter2", w.ann, body)
		require.GreaterOrEqual(t, r.status, 400)
		require.NotContains(t, r.text, "hunter2")
		require.NotContains(t, r.text, "value\"")
		require.NotContains(t, r.text, "Go ")
	}

	w.do("GET", "/api/sessions", "el_hunter2", "")
	require.NotContains(t, w.log.String(), "hunter2")
	require.NotContains(t, w.log.String(), w.ann)
	require.Contains(t, w.log.String(), w.annID)
	require.Contains(t, w.log.String(), `"route":"/api/user/api-keys/"`)
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, "my-id.1", w.do("GET", "/healthz", "", "", header("X-Request-Id", "my-id.1")).header.Get("X-Request-Id"))
	require.NotContains(t, w.do("GET", "/healthz", "", "", header("X-Request-Id", "a b<script>")).header.Get("X-Request-Id"), "script")
	w.do("GET", "/nothing", "", "").code(404, "route_not_found")
}

func TestBodySizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	body := func(n int) string { return `{"content":"` + strings.Repeat("x", n-len(`{"content":""}`)) + `"}` }
	path := "/api/sessions/" + id + "/files/f"
	require.Equal(t, 200, w.do("PUT", path, w.ann, body(10<<20)).status, "10 MB are fine")
	w.do("PUT", path, w.ann, body(10<<20+1)).code(413, "body_too_large")
	w.do("PUT", path, w.ann, body(20<<20)).code(413, "body_too_large")
	w.do("PUT", path, w.ann, body(20<<20), header("Expect", "100-continue")).code(413, "body_too_large")
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *parts) { c.Origins = []string{"https://desktop.example"} })
	ours, foreign := header("Origin", "https://desktop.example"), header("Origin", "https://evil.example")
	preflight := w.do("OPTIONS", "/api/sessions", "", "", ours, header("Access-Control-Request-Method", "POST"))
	require.Equal(t, 204, preflight.status)
	require.Contains(t, preflight.header.Get("Access-Control-Allow-Methods"), "PATCH")
	require.Contains(t, preflight.header.Get("Access-Control-Allow-Headers"), "Authorization")

	r := w.do("GET", "/healthz", "", "", ours)
	require.Equal(t, "https://desktop.example", r.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", r.header.Get("Access-Control-Allow-Credentials"))
	require.Contains(t, r.header.Get("Vary"), "Origin")
	require.Empty(t, w.do("GET", "/healthz", "", "", foreign).header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, 405, w.do("OPTIONS", "/api/sessions", "", "", foreign, header("Access-Control-Request-Method", "POST")).status)
}

// cookie knows one session cookie.
type cookie struct{ user domain.User }

func (c cookie) Verify(_ context.Context, given auth.Credentials) (domain.Caller, error) {
	if given.Cookie != "good" {
		return domain.Caller{}, auth.ErrNotMine
	}

	return domain.Caller{User: c.user}, nil
}

func TestCookiesNeedTheRightOrigin(t *testing.T) {
	t.Parallel()

	user := domain.User{ID: domain.NewID(), Username: "by cookie"}
	w := newWorld(t, func(c *parts) {
		c.Origins = []string{"https://desktop.example"}
		c.Auth = auth.New(accounts.New(c.db.DB), auth.Options{Verifiers: []auth.Verifier{cookie{user}}})
	})
	_, _, err := accounts.New(w.db.DB).
		CreateUser(t.Context(), user, domain.APIKey{ID: "k", UserID: user.ID, Name: "k", Masked: "m"}, make([]byte, 32))
	require.NoError(t, err)

	jar := header("Cookie", "everloop_session=good")
	require.Equal(t, 200, w.do("GET", "/api/auth/me", "", "", jar).status, "reading needs no origin")
	w.do("POST", "/api/sessions", "", `{}`, jar).code(403, "origin_refused")
	w.do("POST", "/api/sessions", "", `{}`, jar, header("Origin", "https://evil.example")).code(403, "origin_refused")
	w.do("POST", "/api/sessions", "", `{}`, jar, header("Origin", "null")).code(403, "origin_refused")
	require.Equal(t, 200, w.do("POST", "/api/sessions", "", `{}`, jar, header("Origin", "https://desktop.example")).status)
	require.Equal(t, 200, w.do("POST", "/api/sessions", "", `{}`, jar, header("Origin", w.url)).status)
	require.Equal(
		t,
		200,
		w.do("POST", "/api/sessions", w.ann, `{}`, header("Origin", "https://evil.example")).status,
		"a key is never sent unasked",
	)
	w.do("GET", "/api/auth/me", "", "", header("Cookie", "everloop_session=bad")).code(401, "unauthorized")
}

// Over HTTPS the cookie counts by its name with the prefix alone: a page of a subdomain can plant the other one.
func TestCookiesOverHTTPS(t *testing.T) {
	t.Parallel()

	user := domain.User{ID: domain.NewID(), Username: "by cookie"}
	w := newWorld(t, behindProxy(t), func(c *parts) {
		c.Auth = auth.New(accounts.New(c.db.DB), auth.Options{Verifiers: []auth.Verifier{cookie{user}}})
	})
	_, _, err := accounts.New(w.db.DB).
		CreateUser(t.Context(), user, domain.APIKey{ID: "k", UserID: user.ID, Name: "k", Masked: "m"}, make([]byte, 32))
	require.NoError(t, err)

	https := header("X-Forwarded-Proto", "https")
	w.do("GET", "/api/auth/me", "", "", https, header("Cookie", "everloop_session=good")).code(401, "unauthorized")
	require.Equal(t, 200, w.do("GET", "/api/auth/me", "", "", https, header("Cookie", "__Host-everloop_session=good")).status)
	require.Equal(t, 200, w.do("GET", "/api/auth/me", "", "", https,
		header("Cookie", "everloop_session=planted; __Host-everloop_session=good")).status)
	require.Equal(
		t,
		200,
		w.do("GET", "/api/auth/me", "", "", header("X-Forwarded-Proto", "http"), header("Cookie", "everloop_session=good")).status,
	)
}

// panicking is a gateway with a bug.
type panicking struct{}

func (panicking) Models(context.Context) ([]domain.Model, error) { panic("a bug with a secret") }

func (panicking) Resolve(context.Context, string) (domain.Model, error) { panic("another bug") }

func TestAPanicIsAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *parts) { c.System.Models, c.Session.Views.ModelFinder = panicking{}, panicking{} })
	r := w.do("GET", "/api/config/models", w.ann, "")
	r.code(500, "internal_error")
	require.NotContains(t, r.text, "bug")
	require.Contains(t, w.log.String(), "a bug with a secret")
	require.Equal(t, 200, w.do("GET", "/healthz", "", "").status)

	r = w.do("POST", "/api/sessions", w.ann, `{"model":"m"}`, header("Idempotency-Key", "p"))
	r.code(500, "internal_error")
	require.Equal(
		t,
		http.StatusInternalServerError,
		w.do("POST", "/api/sessions", w.ann, `{"model":"m"}`, header("Idempotency-Key", "p")).status,
		"the key was left free",
	)
}
