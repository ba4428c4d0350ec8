package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/service/accounts"
)

// allScopes are the scopes, each with those that include it.
var allScopes = map[string][]string{
	"sessions:read": {
		"sessions:write",
	},
	"sessions:write": nil,
	"chat":           nil,
	"files":          nil,
	"schedules":      nil,
	"triggers":       nil,
	"solutions":      nil,
	"workspaces":     nil,
	"skills":         {"skills:write"},
	"skills:write":   nil,
	"admin":          nil,
}

// allBut returns the scopes that do not give the one.
func allBut(scope string) (others []string) {
	for s := range allScopes {
		gives := s == scope
		for _, wider := range allScopes[scope] {
			gives = gives || s == wider
		}

		if !gives {
			others = append(others, s)
		}
	}

	return others
}

// keyOf returns a user another key, restricted to scopes.
func (w *world) keyOf(userID string, scopes ...string) string {
	w.t.Helper()

	key, plaintext, hash := auth.NewKey(userID, "restricted")
	key.Scopes = scopes
	_, err := accounts.New(w.db.DB).CreateKey(w.t.Context(), key, hash[:])
	require.NoError(w.t, err)

	return plaintext
}

// TestEveryOperationAsksForItsScope checks the scope of each operation of the walk, in
// both directions: a key that lacks only this scope is rejected, one that has only it
// is not.
func TestEveryOperationAsksForItsScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rootID := w.do("GET", "/api/auth/me", w.root, "").json()["id"].(string)
	keys := map[string]string{}
	key := func(userID, name string, scopes ...string) string {
		if keys[userID+name] == "" {
			keys[userID+name] = w.keyOf(userID, scopes...)
		}

		return keys[userID+name]
	}

	for _, c := range walk {
		scope := c.scope
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			w := *w
			w.t = t
			c, _ := w.ready(c)
			require.Equal(t, c.public, scope == "public")
			require.Equal(t, c.admin, scope == "admin")

			url := c.url
			if c.stream && c.missing != "" {
				url = c.missing // which has an end
			}

			passes := func(who string) {
				r := w.do(c.method, url, who, c.body)
				require.NotContains(t, []int{401, 403}, r.status, r.text)
			}
			refused := func(who, code string) { w.do(c.method, c.url, who, c.body).code(403, code) }

			who := w.annID
			if scope == "admin" {
				who = rootID

				refused(key(w.annID, "only admin", "admin"), "administrator_required")
			}

			switch scope {
			case "public":
				if c.path != "/hooks/{trigger_id}" { // its requests prove their sender in another way
					passes("")
				}
			case "any":
				passes(key(who, "only workspaces", "workspaces"))
			case "unrestricted":
				refused(key(who, "all", allBut("none")...), "scope_missing")
			default:
				require.Contains(t, allScopes, scope)
				refused(key(who, "all but "+scope, allBut(scope)...), "scope_missing")

				for _, enough := range append(allScopes[scope], scope) {
					passes(key(who, "only "+enough, enough))
				}
			}
		})
	}
}

// status returns the status of a response, which need not end.
func (w *world) status(method, path, key, body string) int {
	w.t.Helper()
	response, err := http.DefaultTransport.RoundTrip(w.request(method, path, key, body))
	require.NoError(w.t, err)
	require.NoError(w.t, response.Body.Close())

	return response.StatusCode
}

// TestScopesBoundAdministrators tries each operation on what belongs to another user with an
// administrator's key that has each scope but admin: it reaches no further than the key of
// another user.
func TestScopesBoundAdministrators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rootID := w.do("GET", "/api/auth/me", w.root, "").json()["id"].(string)
	restricted := w.keyOf(rootID, allBut("admin")...)

	for _, c := range walk {
		if !c.owned() || c.scope == "unrestricted" {
			continue
		}

		t.Run(c.method+" "+c.path, func(t *testing.T) {
			w := *w
			w.t = t
			c, _ := w.ready(c)

			require.Equal(t, 404, w.status(c.method, c.url, restricted, c.body))
		})
	}

	require.Equal(t, false, w.do("GET", "/api/auth/me", restricted, "").json()["administrator"], "companions believe this field")
	require.Equal(t, true, w.do("GET", "/api/auth/me", w.keyOf(rootID, "admin"), "").json()["administrator"])
}

// looking are the operations on a session that only look at it, though their
// method is not GET.
var looking = []string{
	"POST /api/sessions/{session_id}/checkout",
	"POST /api/sessions/{session_id}/replay", // makes a session of the caller's own
}

// ownRights are the paths of operations that name a session and are not operations on it:
// their rights have tests of their own.
var ownRights = []string{"/api/payloads/", "/api/prod_solution/", "/api/prod_workspaces/"}

// TestWhoMayDoWhatWithASession tries each operation on a session as its owner's
// colleague, before and after it is shared, and as an administrator: those who
// may look may not change (docs/rest.md#rules).
func TestWhoMayDoWhatWithASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	for _, c := range walk {
		if !strings.Contains(c.url+c.body, "{s}") || c.admin ||
			slices.ContainsFunc(ownRights, func(p string) bool { return strings.HasPrefix(c.path, p) }) {
			continue
		}

		t.Run(c.method+" "+c.path, func(t *testing.T) {
			w := *w
			w.t = t
			name := c.method + " " + c.path

			looks := c.method == "GET"
			for _, l := range looking {
				looks = looks || l == name
			}

			c, _ := w.ready(c)
			session := w.sessionOf(c)
			mayLook := func(who string) {
				if c.stream && c.method == "GET" {
					return // has no end: see the tests of streams
				}

				r := w.do(c.method, c.url, who, c.body)
				require.NotContains(t, []int{401, 403, 404}, r.status, r.text)
			}
			mayNot := func(who string) { w.do(c.method, c.url, who, c.body).code(403, "forbidden") }

			w.do(c.method, c.url, w.bob, c.body).code(404, "session_not_found")

			if looks {
				mayLook(w.root)
			} else {
				mayNot(w.root)
			}

			require.Equal(t, 200, w.do("PATCH", "/api/sessions/"+session+"/sharing", w.ann, `{"shared":true}`).status)

			if looks {
				mayLook(w.bob)
			} else {
				mayNot(w.bob)
			}
		})
	}
}

// sessionOf returns the session that a call is about.
func (w *world) sessionOf(c call) string {
	w.t.Helper()

	if id := c.values()["session_id"]; id != "" {
		return id
	}

	_, rest, found := strings.Cut(c.body, `"session_id":"`)
	require.True(w.t, found)

	id, _, _ := strings.Cut(rest, `"`)

	return id
}
