package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var solutionWalk = []call{
	{
		method:  "PATCH",
		path:    "/api/sessions/{session_id}/budget",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/budget",
		status:  200,
		hasBody: true,
		body:    `{"max_tokens":1000}`,
		missing: "/api/sessions/" + none + "/budget",
		bad: []bad{
			{body: `{"max_tokens":0}`, at: "body.max_tokens"},
			{body: `{"max_tokens":"many"}`, at: "body.max_tokens"},
			{body: `{"max_tokens":1.5}`, at: "body.max_tokens"},
			{body: `{"max_cost":-0.1}`, at: "body.max_cost"},
			{body: `{"max_cost":[]}`, at: "body.max_cost"},
			{body: `{"max_tokens":1e300}`, at: "body.max_tokens"},
		},
	},
	{method: "GET", path: "/api/solutions", scope: "solutions", url: "/api/solutions", status: 200},
	{
		method:  "GET",
		path:    "/api/solutions/{solution_id}/biz-roles",
		scope:   "solutions",
		url:     "/api/solutions/skill_editor/biz-roles",
		status:  200,
		missing: "/api/solutions/none/biz-roles",
	},
	{
		method:  "GET",
		path:    "/api/solutions/{solution_id}/files/{file_path}",
		scope:   "solutions",
		url:     "/api/solutions/software_factory/files/agents/code-explorer.md",
		status:  200,
		missing: "/api/solutions/software_factory/files/none",
	},
	{
		method:  "GET",
		path:    "/api/admin/users/{user_id}/biz-roles",
		scope:   "admin",
		url:     "/api/admin/users/{u}/biz-roles?solution_id=general",
		status:  200,
		admin:   true,
		missing: "/api/admin/users/" + none + "/biz-roles?solution_id=general",
		bad:     []bad{{path: "/api/admin/users/{u}/biz-roles", at: "query.solution_id"}},
	},
	{
		method:  "PUT",
		path:    "/api/admin/users/{user_id}/biz-roles",
		scope:   "admin",
		url:     "/api/admin/users/{u}/biz-roles?solution_id=general",
		status:  200,
		admin:   true,
		hasBody: true,
		body:    `{"biz_role_ids":["analyst"]}`,
		missing: "/api/admin/users/" + none + "/biz-roles?solution_id=general",
		bad: []bad{
			{
				body: `{}`,
				at:   "body.biz_role_ids",
			},
			{body: `{"biz_role_ids":"analyst"}`, at: "body.biz_role_ids"},
			{body: `{"biz_role_ids":["cook"]}`, at: "body.biz_role_ids[0]"},
		},
	},
}

func TestSolutions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	items := w.do("GET", "/api/solutions", w.ann, "").json()["items"].([]any)
	ids := map[string]map[string]any{}

	for _, item := range items {
		solution := item.(map[string]any)

		ids[solution["id"].(string)] = solution
		for _, field := range []string{"name", "version", "description", "layout_type", "initial_message", "data", "roles"} {
			require.NotEmpty(t, solution[field], "%s of %s", field, solution["id"])
		}
	}

	require.Contains(t, ids, "skill_editor")
	require.Contains(t, ids, "software_factory")
	require.Contains(t, ids, "general")

	session := w.session(`{"solution_id":"software_factory","biz_role_id":"engineer"}`)
	detail := w.do("GET", "/api/sessions/"+session, w.ann, "").json()
	require.Equal(t, "software_factory", detail["solution"].(map[string]any)["id"])
	require.Empty(t, w.do("GET", "/api/sessions/"+w.session(`{}`), w.ann, "").json()["solution"])
	unknown := w.do("POST", "/api/sessions", w.ann, `{"solution_id":"none"}`)
	unknown.code(422, "solution_not_found")
	require.Equal(t, []string{"body.solution_id"}, unknown.fields())

	path := "/api/admin/users/" + w.annID + "/biz-roles?solution_id=general"
	require.JSONEq(
		t,
		`{"user_id":"`+w.annID+`","solution_id":"general","biz_role_ids":[],"default_all":true}`,
		w.do("GET", path, w.root, "").text,
	)
	require.JSONEq(t, `{"ok":true}`, w.do("PUT", path, w.root, `{"biz_role_ids":["analyst"]}`).text)
	require.JSONEq(
		t,
		`{"user_id":"`+w.annID+`","solution_id":"general","biz_role_ids":["analyst"],"default_all":false}`,
		w.do("GET", path, w.root, "").text,
	)
	roles := w.do("GET", "/api/solutions/general/biz-roles", w.ann, "").json()
	require.Len(t, roles["items"], 1)
	require.Equal(t, w.annID, roles["user_id"])
	w.do("GET", "/api/solutions/general/biz-roles?user_id="+w.annID, w.bob, "").code(403, "administrator_required")
	require.Len(t, w.do("GET", "/api/solutions/general/biz-roles?user_id="+w.annID, w.root, "").json()["items"], 1)
	require.Contains(t, w.audited("admin.read"), w.annID+" list-biz-roles", "an administrator's look is recorded")

	admin, _ := w.person("second root", true)
	w.do("GET", "/api/solutions/general/biz-roles?user_id="+w.annID, w.keyOf(admin, "solutions"), "").code(403, "scope_missing")
	w.do("POST", "/api/sessions", w.ann, `{"solution_id":"general","biz_role_id":"operator"}`).code(403, "biz_role_not_allowed")
	w.session(`{"solution_id":"general","biz_role_id":"analyst"}`)

	for _, role := range []string{"cook", "engineer"} { // the second is one of another solution
		other := w.do("POST", "/api/sessions", w.bob, `{"solution_id":"general","biz_role_id":"`+role+`"}`)
		other.code(422, "biz_role_not_found")
		require.Equal(t, []string{"body.biz_role_id"}, other.fields())
	}

	w.session(`{"biz_role_id":"cook"}`) // without a solution it is a note of the client

	file := w.do("GET", "/api/solutions/skill_editor/files/prompt.md", w.ann, "")
	require.Contains(t, file.text, "SKILL.md")

	for _, path := range []string{"..%2Fgeneral%2Fsolution.yaml", "%2e%2e/general/solution.yaml", "agents", ".hidden", "a%00b"} {
		r := w.do("GET", "/api/solutions/skill_editor/files/"+path, w.ann, "")
		require.Contains(t, []int{400, 404}, r.status, path+" "+r.text)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/api/sessions/" + w.session(`{"session_setup":{"budget":{"max_cost":2.5}}}`) + "/budget"
	require.JSONEq(t, `{"max_tokens":null,"max_cost":2.5,"used_tokens":0,"used_cost":0}`, w.do("PATCH", path, w.ann, `{}`).text)
	require.JSONEq(
		t,
		`{"max_tokens":10,"max_cost":2.5,"used_tokens":0,"used_cost":0}`,
		w.do("PATCH", path, w.ann, `{"max_tokens":10}`).text,
	)
	require.JSONEq(
		t,
		`{"max_tokens":10,"max_cost":null,"used_tokens":0,"used_cost":0}`,
		w.do("PATCH", path, w.ann, `{"max_cost":null}`).text,
	)
	w.do("PATCH", path, w.bob, `{"max_tokens":10}`).problem(404)
}

func TestSessionSetup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/api/sessions/" + w.session(`{"session_setup":{"max_steps":9,"permissions":[{"tool":"Bash","decision":"ask"}]}}`)
	setup := func(r reply) map[string]any { return r.json()["session_setup"].(map[string]any) }
	got := setup(w.do("GET", path, w.ann, ""))
	require.EqualValues(t, 9, got["max_steps"])
	require.Len(t, got["permissions"], 1)
	require.EqualValues(t, 80, got["compaction"].(map[string]any)["threshold_pct"])

	got = setup(
		w.do(
			"PATCH",
			path,
			w.ann,
			`{"intent":"x","session_setup":{"compaction":{"threshold_pct":50},"agents":[{"name":"scout","description":"Looks"}]}}`,
		),
	)
	require.EqualValues(t, 9, got["max_steps"], "what is not named stays")
	require.EqualValues(t, 50, got["compaction"].(map[string]any)["threshold_pct"])
	require.Equal(t, []any{"scout"}, got["agents"])

	for body, at := range map[string]string{
		`{"session_setup":{"max_steps":0}}`: "body.session_setup.max_steps", `{"session_setup":{"stuck_after":2}}`: "body.session_setup.stuck_after",
		`{"session_setup":{"compaction":{"threshold_pct":96}}}`:               "body.session_setup.compaction.threshold_pct",
		`{"session_setup":{"permissions":[{"tool":"x","decision":"maybe"}]}}`: "body.session_setup.permissions[0].decision",
		`{"session_setup":{"agents":[{"name":"a b","description":"x"}]}}`:     "body.session_setup.agents[0].name",
		`{"session_setup":{"budget":{"max_tokens":0}}}`:                       "body.session_setup.budget.max_tokens",
	} {
		require.Contains(t, w.do("PATCH", path, w.ann, body).fields(), at)
		require.Contains(t, w.do("POST", "/api/sessions", w.ann, body).fields(), at)
	}

	w.do("PATCH", path, w.bob, `{"session_setup":{"max_steps":5}}`).problem(404)

	require.NotContains(t, setup(w.do("GET", path, w.ann, "")), "max_model_retry_s")
	got = setup(w.do("PATCH", path, w.ann, `{"max_model_retry_s":30}`))
	require.EqualValues(t, 30, got["max_model_retry_s"])
	require.EqualValues(t, 9, got["max_steps"], "what is not named stays")
	got = setup(w.do("PATCH", path, w.ann, `{"session_setup":{"max_steps":8}}`))
	require.EqualValues(t, 30, got["max_model_retry_s"])

	other := "/api/sessions/" + w.session(`{"max_model_retry_s":604800}`)
	require.EqualValues(t, 604800, setup(w.do("GET", other, w.ann, ""))["max_model_retry_s"])

	for _, body := range []string{`{"max_model_retry_s":0}`, `{"max_model_retry_s":604801}`, `{"max_model_retry_s":"x"}`} {
		require.Contains(t, w.do("PATCH", path, w.ann, body).fields(), "body.max_model_retry_s")
		require.Contains(t, w.do("POST", "/api/sessions", w.ann, body).fields(), "body.max_model_retry_s")
	}
}
