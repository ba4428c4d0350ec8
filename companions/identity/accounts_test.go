package identity_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/internal/testkit"
)

// place is a service with an administrator who has signed in.
type place struct {
	t        *testing.T
	database string
	server   *httptest.Server
	admin    reply
}

func newPlace(t *testing.T, change func(*identity.Config)) *place {
	t.Helper()

	database := testkit.Postgres(t)
	server := open(t, database, func(c *identity.Config) {
		c.UserGuesses = 100
		if change != nil {
			change(c)
		}
	})

	return &place{t, database, server, login(t, server, "admin", password)}
}

// as makes a request with the access token of a sign-in.
func (p *place) as(in reply, method, path string, body any) reply {
	p.t.Helper()
	return send(p.t, method, p.server.URL+path, body, bearer(in))
}

// user creates an account and returns its id.
func (p *place) user(username string, more map[string]any) string {
	p.t.Helper()

	body := map[string]any{"username": username, "password": password}
	for field, value := range more {
		body[field] = value
	}

	made := p.as(p.admin, http.MethodPost, "/api/v1/users", body)
	require.Equal(p.t, http.StatusCreated, made.status, made.body)

	id, _ := made.body["id"].(string)

	return id
}

func (p *place) login(username, secret string) reply {
	p.t.Helper()
	return login(p.t, p.server, username, secret)
}

func (p *place) me(in reply) int {
	p.t.Helper()
	return p.as(in, http.MethodGet, "/api/v1/auth/me", nil).status
}

// actions are those of the audit log, newest first.
func (p *place) actions() []string {
	p.t.Helper()

	var out []string

	for _, item := range items(p.as(p.admin, http.MethodGet, "/api/v1/audit?limit=1000", nil)) {
		action, _ := item["action"].(string)
		out = append(out, action)
	}

	return out
}

func items(r reply) []map[string]any {
	var out []map[string]any

	list, _ := r.body["items"].([]any)
	for _, one := range list {
		item, _ := one.(map[string]any)
		out = append(out, item)
	}

	return out
}

func TestService_listUsers_pagesAndSearch(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.user("eve", map[string]any{"email": "Eve@Example.org"})
	p.user("bob", map[string]any{"name": "100% Bob_"})
	p.user("carol", nil)

	list := func(query string) reply { return p.as(p.admin, http.MethodGet, "/api/v1/users"+query, nil) }
	names := func(r reply) (out []any) {
		for _, u := range items(r) {
			out = append(out, u["username"])
		}

		return out
	}

	require.Equal(t, []any{"admin", "eve", "bob", "carol"}, names(list("")))

	first := list("?limit=3")
	require.Equal(t, []any{"admin", "eve", "bob"}, names(first))
	require.EqualValues(t, 4, first.body["total"])

	after, _ := first.body["next_after"].(string)
	second := list("?limit=3&after=" + after)
	require.Equal(t, []any{"carol"}, names(second))
	require.NotContains(t, second.body, "next_after")

	require.Equal(t, []any{"eve"}, names(list("?q=EXAMPLE.org")))
	require.Equal(t, []any{"bob"}, names(list("?q=0%25+b")), "a search is literal")
	require.Empty(t, names(list("?q=%25%25")))

	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?q=%00", "?q=%ff", "?after=%00"} {
		require.Equal(t, http.StatusUnprocessableEntity, list(query).status, query)
	}

	require.Equal(t, http.StatusForbidden, p.as(p.login("eve", password), http.MethodGet, "/api/v1/users", nil).status)
}

func TestService_administration_needsTheRight(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	id := p.user("eve", nil)
	eve := p.login("eve", password)

	for _, one := range [][2]string{
		{http.MethodGet, ""},
		{http.MethodPatch, ""},
		{http.MethodDelete, ""},
		{http.MethodPut, "/password"},
		{http.MethodGet, "/sessions"},
		{http.MethodDelete, "/sessions"},
		{http.MethodDelete, "/sessions/x"},
		{http.MethodDelete, "/totp"},
		{http.MethodDelete, "/passkeys"},
		{http.MethodDelete, "/links"},
	} {
		r := p.as(eve, one[0], "/api/v1/users/"+id+one[1], map[string]any{})
		require.Equal(t, http.StatusForbidden, r.status, one)
		require.Equal(t, "administrator_required", r.body["code"])
		r = send(t, one[0], p.server.URL+"/api/v1/users/"+id+one[1], map[string]any{}, nil)
		require.Equal(t, http.StatusUnauthorized, r.status, one)
	}

	for _, one := range [][2]string{
		{http.MethodGet, ""},
		{http.MethodPatch, ""},
		{http.MethodDelete, ""},
		{http.MethodGet, "/sessions"},
		{http.MethodDelete, "/sessions"},
		{http.MethodDelete, "/totp"},
	} {
		r := p.as(p.admin, one[0], "/api/v1/users/nothing"+one[1], map[string]any{})
		require.Equal(t, http.StatusNotFound, r.status, one)
		require.Equal(t, "user_not_found", r.body["code"], one)
	}
}

func TestService_changeUser(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	id := p.user("eve", nil)
	patch := func(body any) reply { return p.as(p.admin, http.MethodPatch, "/api/v1/users/"+id, body) }

	changed := patch(map[string]any{"name": "Eve", "email": "eve@example.org", "administrator": true})
	require.Equal(t, http.StatusOK, changed.status, changed.body)
	require.Equal(t, []any{"Eve", "eve@example.org", true, float64(2)}, []any{
		changed.body["name"], changed.body["email"], changed.body["administrator"], changed.body["version"],
	})
	require.EqualValues(t, 2, patch(map[string]any{"name": "Eve"}).body["version"], "no change is no new version")

	shown := p.as(p.admin, http.MethodGet, "/api/v1/users/"+id, nil)
	require.Equal(t, "Eve", shown.body["name"])
	require.Equal(t, true, shown.body["has_password"])

	for _, body := range []any{
		map[string]any{"name": 7}, map[string]any{"email": "none"}, map[string]any{"name": "a\x00b"}, map[string]any{"disabled": "yes"},
	} {
		require.Equal(t, http.StatusUnprocessableEntity, patch(body).status, body)
	}

	require.Subset(t, p.actions(), []string{"user.create", "user.update", "user.read"})

	in := p.login("eve", password)

	require.Equal(t, http.StatusOK, patch(map[string]any{"name": "Eva"}).status)
	require.Equal(t, http.StatusOK, p.me(in))
	require.Equal(t, http.StatusOK, patch(map[string]any{"administrator": false}).status)
	require.Equal(t, http.StatusUnauthorized, p.me(in), "its access token names the right")
}

func TestService_changeUser_disabledLosesAccessAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	id := p.user("eve", nil)
	in := p.login("eve", password)
	token, _ := p.as(in, http.MethodGet, "/api/v1/pat/v3/default", nil).body["token"].(string)
	byToken := func() int {
		return send(t, http.MethodGet, p.server.URL+"/api/v1/auth/me", nil, map[string]string{"Authorization": "Bearer " + token}).status
	}
	refresh := func() reply {
		return send(
			t,
			http.MethodPost,
			p.server.URL+"/api/v1/auth/refresh",
			nil,
			map[string]string{"Cookie": in.header.Values("Set-Cookie")[1]},
		)
	}

	require.Equal(t, http.StatusOK, byToken())
	require.Equal(t, http.StatusOK, p.as(p.admin, http.MethodPatch, "/api/v1/users/"+id, map[string]any{"disabled": true}).status)
	require.Equal(t, http.StatusUnauthorized, byToken())
	require.Equal(t, http.StatusUnauthorized, p.me(in))
	require.Equal(t, http.StatusUnauthorized, refresh().status)

	refused := p.login("eve", password)
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Equal(t, "account_disabled", refused.body["code"])
	require.Equal(t, "unauthorized", p.login("eve", "a wrong password").body["code"], "said to those who know the password alone")

	require.Equal(t, http.StatusOK, p.as(p.admin, http.MethodPatch, "/api/v1/users/"+id, map[string]any{"disabled": false}).status)
	require.Equal(t, http.StatusUnauthorized, p.me(in), "what was ended stays ended")
	require.Equal(t, http.StatusUnauthorized, byToken())
	require.Equal(t, http.StatusOK, p.login("eve", password).status)
}

func TestService_personalToken_ends(t *testing.T) {
	t.Parallel()

	for name, end := range map[string]func(p *place, in reply, id string) reply{
		"password changed": func(p *place, in reply, _ string) reply {
			return p.as(in, http.MethodPost, "/api/v1/auth/password", map[string]any{
				"current_password": "a password of eve", "new_password": "another password of eve",
			})
		},
		"password set": func(p *place, _ reply, id string) reply {
			return p.as(p.admin, http.MethodPut, "/api/v1/users/"+id+"/password", map[string]any{"password": "another password of eve"})
		},
		"logout everywhere": func(p *place, in reply, _ string) reply {
			return p.as(in, http.MethodPost, "/api/v1/auth/logout", map[string]any{"everywhere": true})
		},
		"others ended": func(p *place, in reply, _ string) reply {
			return p.as(in, http.MethodDelete, "/api/v1/auth/sessions", nil)
		},
		"passkeys removed": func(p *place, _ reply, id string) reply {
			return p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id+"/passkeys", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, nil)
			id := p.user("eve", map[string]any{"password": "a password of eve"})
			in := p.login("eve", "a password of eve")
			token, _ := p.as(in, http.MethodGet, "/api/v1/pat/v3/default", nil).body["token"].(string)
			require.Equal(t, http.StatusOK, p.byToken(token, http.MethodGet, "/api/v1/auth/me").status)

			ended := end(p, in, id)
			require.Less(t, ended.status, 300, ended.body)
			require.Equal(t, http.StatusUnauthorized, p.byToken(token, http.MethodGet, "/api/v1/auth/me").status)
		})
	}
}

func TestService_personalToken_expires(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	made := func() (token string, expires time.Time) {
		r := p.as(p.admin, http.MethodGet, "/api/v1/pat/v3/default", nil)
		expires, err := time.Parse(time.RFC3339, r.body["expires_at"].(string))
		require.NoError(t, err)

		return r.body["token"].(string), expires
	}

	token, expires := made()
	require.WithinDuration(t, time.Now().AddDate(1, 0, 0), expires, 48*time.Hour)

	again, _ := made()
	require.Equal(t, token, again)

	execute(t, p.database, `UPDATE identity.personal_tokens SET expires_at = now()`)
	require.Equal(t, http.StatusUnauthorized, p.byToken(token, http.MethodGet, "/api/v1/auth/me").status)

	next, expires := made()
	require.NotEqual(t, token, next)
	require.WithinDuration(t, time.Now().AddDate(1, 0, 0), expires, 48*time.Hour)
}

func TestService_alive_accounts(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	eve := p.user("eve", map[string]any{"administrator": true})
	asked := []string{"account/" + eve, "administrator/" + eve, "account/none", eve, "administrator/", "x/" + eve}

	alive := func() any {
		return p.as(reply{}, http.MethodPost, "/api/v1/auth/alive", map[string]any{"accounts": asked}).body["accounts"]
	}
	require.ElementsMatch(t, []any{"account/" + eve, "administrator/" + eve}, alive())

	change := func(body map[string]any) {
		require.Equal(t, http.StatusOK, p.as(p.admin, http.MethodPatch, "/api/v1/users/"+eve, body).status)
	}
	change(map[string]any{"administrator": false})
	require.Equal(t, []any{"account/" + eve}, alive())
	change(map[string]any{"disabled": true})
	require.Equal(t, []any{}, alive())
	change(map[string]any{"disabled": false})
	require.Equal(t, []any{"account/" + eve}, alive())
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+eve, nil).status)
	require.Equal(t, []any{}, alive())
}

func TestService_lastAdministratorStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	first, _ := p.as(p.admin, http.MethodGet, "/api/v1/auth/me", nil).body["id"].(string)
	second := p.user("second", map[string]any{"administrator": true})

	// Both at once: each would leave one, together none.
	var wg sync.WaitGroup

	other := p.login("second", password)
	statuses := make([]reply, 2)

	wg.Go(func() {
		statuses[0] = p.as(p.admin, http.MethodPatch, "/api/v1/users/"+second, map[string]any{"administrator": false})
	})
	wg.Go(func() {
		statuses[1] = p.as(other, http.MethodPatch, "/api/v1/users/"+first, map[string]any{"administrator": false})
	})
	wg.Wait()

	left, id := p.admin, first
	if statuses[1].status == http.StatusOK {
		left, id = other, second
	}

	require.NotEqual(t, statuses[0].status, statuses[1].status, "%v", statuses)

	for _, try := range []reply{
		p.as(left, http.MethodPatch, "/api/v1/users/"+id, map[string]any{"disabled": true}),
		p.as(left, http.MethodPatch, "/api/v1/users/"+id, map[string]any{"administrator": false}),
		p.as(left, http.MethodDelete, "/api/v1/users/"+id, nil),
	} {
		require.Equal(t, http.StatusConflict, try.status)
		require.Equal(t, "last_administrator", try.body["code"])
	}
}

func TestService_setPassword_endsSessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	id := p.user("eve", nil)
	in := p.login("eve", password)
	set := func(secret string) reply {
		return p.as(p.admin, http.MethodPut, "/api/v1/users/"+id+"/password", map[string]string{"password": secret})
	}

	require.Equal(t, http.StatusUnprocessableEntity, set("short").status)
	require.Equal(t, http.StatusNoContent, set("quite another one").status)
	require.Equal(t, http.StatusUnauthorized, p.me(in))
	require.Equal(t, http.StatusUnauthorized, p.login("eve", password).status)
	require.Equal(t, http.StatusOK, p.login("eve", "quite another one").status)
	require.Contains(t, p.actions(), "user.set_password")
}

func TestService_sessions_listAndEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	id := p.user("eve", nil)
	agents := []string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
		"curl/8.14.1",
	}

	var ins []reply

	for _, agent := range agents {
		in := send(t, http.MethodPost, p.server.URL+"/api/v1/auth/login", map[string]string{"username": "eve", "password": password},
			map[string]string{"User-Agent": agent})
		require.Equal(t, http.StatusOK, in.status)

		ins = append(ins, in)
	}

	list := func(in reply) map[any]map[string]any {
		out := map[any]map[string]any{}
		for _, one := range items(p.as(in, http.MethodGet, "/api/v1/auth/sessions", nil)) {
			out[one["device"]] = one
		}

		return out
	}
	mine := list(ins[0])
	require.Len(t, mine, 3)
	require.Equal(t, true, mine["Firefox on Linux"]["current"])
	require.Equal(t, false, mine["Edge on Windows"]["current"])
	require.Equal(t, "127.0.0.1", mine["curl"]["address"])
	require.NotEmpty(t, mine["curl"]["last_used_at"])

	end := func(in reply, id any) reply {
		text, _ := id.(string)
		return p.as(in, http.MethodDelete, "/api/v1/auth/sessions/"+text, nil)
	}
	require.Equal(t, http.StatusNotFound, end(p.admin, mine["curl"]["id"]).status, "sessions of others are not found")
	require.Equal(t, http.StatusNoContent, end(ins[0], mine["curl"]["id"]).status)
	require.Equal(t, http.StatusNotFound, end(ins[0], mine["curl"]["id"]).status)
	require.Equal(t, http.StatusUnauthorized, p.me(ins[2]))

	require.Equal(t, http.StatusNoContent, p.as(ins[0], http.MethodDelete, "/api/v1/auth/sessions", nil).status)
	require.Equal(t, http.StatusUnauthorized, p.me(ins[1]))
	require.Equal(t, http.StatusOK, p.me(ins[0]))

	seen := items(p.as(p.admin, http.MethodGet, "/api/v1/users/"+id+"/sessions", nil))
	require.Len(t, seen, 1)
	one, _ := seen[0]["id"].(string)
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id+"/sessions/"+one, nil).status)
	require.Equal(t, http.StatusUnauthorized, p.me(ins[0]))

	again := p.login("eve", password)
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id+"/sessions", nil).status)
	require.Equal(t, http.StatusUnauthorized, p.me(again))
	require.Subset(t, p.actions(), []string{"session.end", "session.end_others", "session.end_all", "session.list"})
}
