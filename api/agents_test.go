package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	activitycontract "everloop/activities/contract"

	"github.com/stretchr/testify/require"

	"everloop/domain/prodagent"
)

const (
	agentFields = `"name":"Reviewer","solution_id":"software_factory","biz_role_id":"reviewer"`
	noAgent     = "/api/prod_agents/" + none
	noInstance  = "/api/agent-instances/" + none
)

var agentsWalk = []call{
	{
		method: "POST", path: "/api/prod_agents", scope: "solutions", url: "/api/prod_agents", status: 200, hasBody: true,
		body: `{` + agentFields + `}`, bad: []bad{
			{body: `{"name":"x","solution_id":"general"}`, at: "body.biz_role_id"},
			{body: `{"name":" ","solution_id":"general","biz_role_id":"operator"}`, at: "body.name"},
			{body: `{"name":"x","solution_id":"nope","biz_role_id":"operator"}`, at: "body.solution_id"},
			{body: `{"name":"x","solution_id":"general","biz_role_id":"nope"}`, at: "body.biz_role_id"},
			{body: `{` + agentFields + `,"initial_mode":"dreaming"}`, at: "body.initial_mode"},
			{body: `{` + agentFields + `,"visibility":"` + strings.Repeat("x", 33) + `"}`, at: "body.visibility"},
			{body: `{` + agentFields + `,"agent_id":"a b"}`, at: "body.agent_id"},
			{body: `{` + agentFields + `,"preview_urls":[{"name":"n"}]}`, at: "body.preview_urls[0].url"},
			{body: `{` + agentFields + `,"preview_urls":[{"name":"n","url":"javascript:alert(1)"}]}`, at: "body.preview_urls[0].url"},
			{
				body: `{` + agentFields + `,"skills_data":{"a":"` + strings.Repeat("x", prodagent.MaxSkillsData) + `"}}`,
				at:   "body.skills_data",
			},
		},
	},
	{method: "GET", path: "/api/prod_agents", scope: "solutions", url: "/api/prod_agents?limit=2", status: 200, bad: []bad{
		{path: "/api/prod_agents?limit=0", at: "query.limit"}, {path: "/api/prod_agents?offset=-1", at: "query.offset"},
	}},
	{method: "GET", path: "/api/prod_agents/solution-catalog", scope: "solutions", url: "/api/prod_agents/solution-catalog", status: 200},
	{method: "GET", path: "/api/prod_agents/{record_id}", scope: "solutions", url: "/api/prod_agents/{g}", status: 200, missing: noAgent},
	{
		method: "PUT", path: "/api/prod_agents/{record_id}", scope: "solutions", url: "/api/prod_agents/{g}", status: 200, hasBody: true,
		body: `{` + agentFields + `}`, missing: noAgent, bad: []bad{{body: `{"name":"x"}`, at: "body.solution_id"}},
	},
	{
		method:  "POST",
		path:    "/api/prod_agents/{record_id}/instantiate",
		scope:   "solutions",
		url:     "/api/prod_agents/{g}/instantiate",
		hasBody: true,
		body:    `{"start_session":true}`,
		status:  200,
		missing: noAgent + "/instantiate",
		bad:     []bad{{body: `{"start_session":"yes"}`, at: "body.start_session"}},
	},
	{
		method:  "POST",
		path:    "/api/prod_agents/{record_id}/start-session",
		scope:   "solutions",
		url:     "/api/prod_agents/{g}/start-session",
		status:  200,
		hasBody: true,
		missing: noAgent + "/start-session",
	},
	{
		method:  "DELETE",
		path:    "/api/prod_agents/{record_id}",
		scope:   "solutions",
		url:     "/api/prod_agents/{g}",
		status:  200,
		missing: noAgent,
	},

	{method: "GET", path: "/api/agent-runtimes", scope: "workspaces", url: "/api/agent-runtimes", status: 200, bad: []bad{
		{path: "/api/agent-runtimes?limit=0", at: "query.limit"},
	}},
	{
		method: "POST", path: "/api/agent-instances", scope: "workspaces", url: "/api/agent-instances", status: 200, hasBody: true,
		body: `{"name":"i","runtime_id":"builtin"}`, bad: []bad{
			{body: `{"name":"i"}`, at: "body.runtime_id"},
			{body: `{"name":"i","runtime_id":"nope"}`, at: "body.runtime_id"},
			{body: `{"name":"i","runtime_id":"builtin","model":"nope"}`, at: "body.model"},
			{body: `{"name":"i","runtime_id":"builtin","env":{"A=B":"x"}}`, at: "body.env"},
			{body: `{"name":"i","runtime_id":"builtin","max_concurrent_tasks":0}`, at: "body.max_concurrent_tasks"},
		},
	},
	{
		method: "GET",
		path:   "/api/agent-instances",
		scope:  "workspaces",
		url:    "/api/agent-instances?include_archived=true",
		status: 200,
		bad: []bad{
			{
				path: "/api/agent-instances?include_archived=x",
				at:   "query.include_archived",
			},
			{path: "/api/agent-instances?limit=0", at: "query.limit"},
		},
	},
	{
		method:  "GET",
		path:    "/api/agent-instances/{id}",
		scope:   "workspaces",
		url:     "/api/agent-instances/{i}",
		status:  200,
		missing: noInstance,
	},
	{
		method:  "PATCH",
		path:    "/api/agent-instances/{id}",
		scope:   "workspaces",
		url:     "/api/agent-instances/{i}",
		status:  200,
		hasBody: true,
		body:    `{"archived":true}`,
		missing: noInstance,
		bad:     []bad{{body: `{"name":""}`, at: "body.name"}, {body: `{"runtime_id":"nope"}`, at: "body.runtime_id"}},
	},
	{
		method:  "DELETE",
		path:    "/api/agent-instances/{id}",
		scope:   "workspaces",
		url:     "/api/agent-instances/{i}",
		status:  200,
		missing: noInstance,
	},
}

// StartTask starts no background task.
func (noEngine) StartTask(context.Context, activitycontract.TaskInput) error { return nil }

// prodAgent makes a production agent of ann's, in place of those that ann has.
func (w *world) prodAgent() string {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), `DELETE FROM prod_agents WHERE owner_id = $1`, w.annID)
	require.NoError(w.t, err)

	return w.agentOf(w.ann, ``)
}

// agentOf makes a production agent, with further fields.
func (w *world) agentOf(key, more string) string {
	w.t.Helper()
	r := w.do(http.MethodPost, "/api/prod_agents", key, `{`+agentFields+more+`}`)
	require.Equal(w.t, 200, r.status, r.text)

	return r.json()["record_id"].(string)
}

// agentInstance makes an agent instance of ann's, in place of those that ann has.
func (w *world) agentInstance() string {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), `DELETE FROM agent_instances WHERE owner_id = $1`, w.annID)
	require.NoError(w.t, err)
	r := w.do(http.MethodPost, "/api/agent-instances", w.ann, `{"name":"i","runtime_id":"builtin"}`)
	require.Equal(w.t, 200, r.status, r.text)

	return r.json()["instance_id"].(string)
}

func TestProdAgents_areChangedByVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.agentOf(w.ann, `,"agent_id":"reviewer","skills":["a"],"skills_data":{"k":1},"init_script":"true","initial_mode":"planning"`)
	w.do("POST", "/api/prod_agents", w.ann, `{"agent_id":"reviewer",`+agentFields+`}`).code(409, "agent_id_taken")
	w.agentOf(w.bob, `,"agent_id":"reviewer"`)

	found := w.do("GET", "/api/prod_agents/"+id, w.ann, "").json()
	agent := found["agent"].(map[string]any)
	require.Equal(t, "builtin", found["provider"])
	require.Equal(t, "builtin", found["runtime"].(map[string]any)["mode"])
	require.Equal(
		t,
		[]any{"reviewer", "planning", "workspace", "default", "active", 1.0, map[string]any{"k": 1.0}},
		[]any{
			agent["agent_id"],
			agent["initial_mode"],
			agent["visibility"],
			agent["layout_type"],
			agent["status"],
			agent["version"],
			agent["skills_data"],
		},
	)

	changed := w.do("PUT", "/api/prod_agents/"+id, w.ann, `{"name":"Other","solution_id":"general","biz_role_id":"operator"}`).json()
	require.Equal(t, []any{"reviewer", 2.0}, []any{changed["agent_id"], changed["version"]})

	items := w.do("GET", "/api/prod_agents", w.ann, "").json()["items"].([]any)
	require.Len(t, items, 1)
	require.Equal(t, "Other", items[0].(map[string]any)["name"])
	require.Empty(t, items[0].(map[string]any)["skills"])
	require.Equal(t, true, w.do("DELETE", "/api/prod_agents/"+id, w.ann, "").json()["ok"])
	w.do("GET", "/api/prod_agents/"+id, w.ann, "").code(404, "prod_agent_not_found")
}

// A workspace that both are members of lets bob see what ann shows, and change nothing.
func TestAgents_visibility(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shown, hidden := w.agentOf(w.ann, `,"visibility":""`), w.agentOf(w.ann, `,"visibility":"private"`)
	other := w.agentOf(w.ann, `,"visibility":"team"`)
	require.Equal(t, "team", w.do("GET", "/api/prod_agents/"+other, w.ann, "").json()["agent"].(map[string]any)["visibility"])
	instance := w.agentInstance()
	w.do("GET", "/api/prod_agents/"+shown, w.bob, "").code(404, "prod_agent_not_found")
	workspace := w.do("POST", "/api/prod_workspaces", w.ann, `{"name":"W"}`).json()["id"].(string)
	w.joins(workspace, "bob", w.bob, "member")

	require.Equal(t, 200, w.do("GET", "/api/prod_agents/"+shown, w.bob, "").status)
	require.Len(t, w.do("GET", "/api/prod_agents", w.bob, "").json()["items"], 1)
	w.do("GET", "/api/prod_agents/"+hidden, w.bob, "").code(404, "prod_agent_not_found")
	w.do("GET", "/api/prod_agents/"+other, w.bob, "").code(404, "prod_agent_not_found")
	w.do("PUT", "/api/prod_agents/"+shown, w.bob, `{`+agentFields+`}`).code(403, "forbidden")
	w.do("DELETE", "/api/prod_agents/"+shown, w.bob, "").code(403, "forbidden")
	w.do("GET", "/api/agent-instances/"+instance, w.bob, "").code(404, "agent_instance_not_found")
	require.Equal(t, 200,
		w.do("PATCH", "/api/agent-instances/"+instance, w.ann, `{"shared_with":[{"workspace_id":"`+workspace+`"}]}`).status)
	require.Equal(t, 200, w.do("GET", "/api/agent-instances/"+instance, w.bob, "").status)
	w.do("PATCH", "/api/agent-instances/"+instance, w.bob, `{"name":"x"}`).code(403, "forbidden")
	w.do("DELETE", "/api/agent-instances/"+instance, w.bob, "").code(403, "forbidden")
	started := w.do("POST", "/api/prod_agents/"+shown+"/start-session", w.bob, "").json()["session_id"].(string)
	require.Equal(t, "owner", w.do("GET", "/api/sessions/"+started, w.bob, "").json()["viewer_role"])
}

// The init script of a colleague's agent runs with the caller's environment: they read it first.
func TestAgents_initScriptsOfOthersAreConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := w.do("POST", "/api/prod_workspaces", w.ann, `{"name":"W"}`).json()["id"].(string)
	w.joins(workspace, "bob", w.bob, "member")

	at := "/api/prod_agents/" + w.agentOf(w.ann, `,"init_script":"env"`)
	digest := func() string {
		found := w.do("GET", at, w.bob, "").json()
		require.NotEmpty(t, found["agent"].(map[string]any)["init_script"])

		return found["init_script_digest"].(string)
	}
	unconfirmed := func(body string) {
		t.Helper()
		w.do("POST", at+"/start-session", w.bob, body).code(409, "init_script_unconfirmed")
		w.do("POST", at+"/instantiate", w.bob, body).code(409, "init_script_unconfirmed")
	}
	confirm := func() string { return `{"init_script_digest":"` + digest() + `"}` }

	require.Equal(t, 200, w.do("POST", at+"/start-session", w.ann, "").status, "it is the owner's own")
	unconfirmed("")
	unconfirmed(`{"init_script_digest":"0"}`)
	require.Equal(t, 200, w.do("POST", at+"/start-session", w.bob, confirm()).status)
	require.Equal(t, 200, w.do("POST", at+"/start-session", w.bob, "").status, "it was confirmed")
	require.Equal(t, 200, w.do("POST", at+"/instantiate", w.bob, "").status)

	require.Equal(t, 200, w.do("PUT", at, w.ann, `{`+agentFields+`,"init_script":"env > /tmp/x"}`).status)
	unconfirmed("")
	require.Equal(t, 200, w.do("POST", at+"/instantiate", w.bob, confirm()).status)
}

func TestAgentInstances_areArchivedAndNeverShowTheirEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.do("POST", "/api/agent-instances", w.ann, `{"name":"i","runtime_id":"builtin","env":{"TOKEN":"hidden-1"}}`)
	require.NotContains(t, made.text, "hidden-1")
	id := made.json()["id"].(string)
	require.Equal(t, []any{true, 1.0, "offline", 6.0}, []any{
		made.json()["has_env"], made.json()["env_key_count"], made.json()["status"], made.json()["max_concurrent_tasks"],
	})
	require.Equal(t, 200, w.do("PATCH", "/api/agent-instances/"+id, w.ann, `{"archived":true,"env":{}}`).status)
	require.Empty(t, w.do("GET", "/api/agent-instances", w.ann, "").json()["items"])
	archived := w.do("GET", "/api/agent-instances?include_archived=true", w.ann, "").json()["items"].([]any)[0].(map[string]any)
	require.NotNil(t, archived["archived_at"])
	require.Equal(t, false, archived["has_env"])

	back := w.do("PATCH", "/api/agent-instances/"+id, w.ann, `{"archived":false}`).json()
	require.Nil(t, back["archived_at"])
}
