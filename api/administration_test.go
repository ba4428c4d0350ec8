package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var administrationWalk = []call{
	{method: "GET", path: "/api/admin/admins", scope: "admin", url: "/api/admin/admins", status: 200, admin: true},
	{
		method:  "POST",
		path:    "/api/admin/admins",
		scope:   "admin",
		url:     "/api/admin/admins",
		status:  200,
		admin:   true,
		hasBody: true,
		body:    `{"user_id":"{u}"}`,
		bad: []bad{
			{body: `{}`, at: "body.user_id"}, {body: `{"user_id":""}`, at: "body.user_id"}, {body: `{"user_id":1}`, at: "body.user_id"},
		},
	},
	{
		method:  "DELETE",
		path:    "/api/admin/admins/{user_id}",
		scope:   "admin",
		url:     "/api/admin/admins/{a}",
		status:  200,
		admin:   true,
		missing: "/api/admin/admins/" + none,
	},
	{method: "GET", path: "/api/admin/audit", scope: "admin", url: "/api/admin/audit", status: 200, admin: true, bad: []bad{
		{
			path: "/api/admin/audit?limit=0",
			at:   "query.limit",
		},
		{path: "/api/admin/audit?limit=1001", at: "query.limit"},
		{path: "/api/admin/audit?offset=-1", at: "query.offset"},
	}},
	{
		method:  "POST",
		path:    "/api/admin/users/token-state",
		scope:   "admin",
		url:     "/api/admin/users/token-state",
		status:  200,
		admin:   true,
		hasBody: true,
		body:    `{"users":[{"sub":"x","email":"","name":""}]}`,
		bad: []bad{
			{body: `{}`, at: "body.users"},
			{body: `{"users":{}}`, at: "body.users"},
			{body: `{"users":[{"email":"a","name":"b"}]}`, at: "body.users[0].sub"},
			{body: `{"users":[{"sub":"` + strings.Repeat("x", 257) + `","email":"","name":""}]}`, at: "body.users[0].sub"},
		},
	},
}

func TestCreateUser_keyHasTheScopesOfTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rootID := w.do("GET", "/api/auth/me", w.root, "").json()["id"].(string)

	scopesOf := func(who, body string) any {
		made := w.do("POST", "/api/admin/users", who, body).json()["api_key"].(map[string]any)
		return w.do("GET", "/api/auth/me", made["plaintext"].(string), "").json()["scopes"]
	}
	require.Equal(t, []any{"admin"}, scopesOf(w.keyOf(rootID, "admin"), `{"username":"eve","administrator":true}`))
	require.Equal(t, []any{"chat", "admin"}, scopesOf(w.keyOf(rootID, "chat", "admin"), `{"username":"fay"}`))
	require.Nil(t, scopesOf(w.root, `{"username":"gil"}`))
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.JSONEq(t, `{"ok":true}`, w.do("POST", "/api/admin/admins", w.root, `{"user_id":"`+w.annID+`"}`).text)
	require.Len(t, w.do("GET", "/api/admin/admins", w.ann, "").json()["items"], 2, "the right holds at once")
	w.do("POST", "/api/admin/admins", w.root, `{"user_id":"`+none+`"}`).code(404, "user_not_found")
	require.JSONEq(t, `{"ok":true}`, w.do("DELETE", "/api/admin/admins/"+w.annID, w.root, "").text)
	w.do("GET", "/api/admin/admins", w.ann, "").code(403, "administrator_required")
	ordinary := w.do("DELETE", "/api/admin/admins/"+w.annID, w.root, "")
	ordinary.code(404, "user_not_found")
	require.Contains(t, ordinary.text, "is not an administrator")
	require.Equal(t, []string{"path.user_id"}, w.do("GET", "/api/admin/users/a%00b/biz-roles?solution_id=general", w.root, "").fields())
	last := w.do("GET", "/api/admin/admins", w.root, "").json()["items"].([]any)[0].(map[string]any)["id"].(string)
	w.do("DELETE", "/api/admin/admins/"+last, w.root, "").code(409, "last_administrator")

	trail := w.do("GET", "/api/admin/audit?limit=1&action=admin.revoke", w.root, "").json()
	require.EqualValues(t, 1, trail["total"])
	newest := trail["items"].([]any)[0].(map[string]any)
	require.Equal(t, "admin.revoke", newest["action"])
	require.Equal(t, w.annID, newest["target"])
	require.Equal(t, last, newest["actor_id"])
	require.EqualValues(t, 1, w.do("GET", "/api/admin/audit?action=admin.grant&target="+w.annID, w.root, "").json()["total"])

	states := w.do("POST", "/api/admin/users/token-state", w.root, `{"users":[
		{"sub":"`+w.annID+`","email":"ann@new.example","name":""},{"sub":"unknown","email":"unknown@example.org","name":"x"}]}`).json()["items"].([]any)
	require.Equal(t, true, states[0].(map[string]any)["ok"])
	require.Equal(t, true, states[0].(map[string]any)["changed"])
	require.Equal(t, false, states[1].(map[string]any)["ok"])
	require.Equal(t, "unknown", states[1].(map[string]any)["sub"])
}
