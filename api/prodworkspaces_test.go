package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/board"
	"everloop/infra/postgres/pgtest"
	boards "everloop/service/board"
)

const (
	onBoard = "/api/prod_workspaces/{w}"
	noBoard = "/api/prod_workspaces/" + none
	on      = onBoard + "/issues"
)

var prodWorkspacesWalk = []call{
	{
		method: "POST", path: "/api/prod_workspaces", scope: "workspaces", url: "/api/prod_workspaces", status: 200, hasBody: true,
		body: `{"name":"One"}`, bad: []bad{
			{body: `{}`, at: "body.name"},
			{body: `{"name":"x","issue_prefix":"a"}`, at: "body.issue_prefix"},
			{body: `{"name":"x","settings":{"max_attempts":0,"run_on_comment":true}}`, at: "body.settings.max_attempts"},
		},
	},
	{method: "GET", path: "/api/prod_workspaces", scope: "workspaces", url: "/api/prod_workspaces", status: 200, bad: []bad{
		{path: "/api/prod_workspaces?limit=0", at: "query.limit"},
	}},
	{method: "GET", path: "/api/prod_workspaces/{workspace_id}", scope: "workspaces", url: onBoard, status: 200, missing: noBoard},
	{
		method: "GET", path: "/api/prod_workspaces/{workspace_id}/members", scope: "workspaces", url: onBoard + "/members", status: 200,
		missing: noBoard + "/members",
	},
	{
		method:  "POST",
		path:    "/api/prod_workspaces/{workspace_id}/members",
		scope:   "workspaces",
		url:     onBoard + "/members",
		status:  200,
		hasBody: true,
		body:    `{"user_id":"bob","role":"viewer"}`,
		missing: noBoard + "/members",
		bad:     []bad{{body: `{"user_id":"bob","role":"x"}`, at: "body.role"}},
	},
	{
		method:  "DELETE",
		path:    "/api/prod_workspaces/{workspace_id}/members/{user_id}",
		scope:   "workspaces",
		url:     onBoard + "/members/{guest}",
		status:  200,
		missing: onBoard + "/members/" + none,
	},
	{
		method: "GET", path: "/api/prod_workspaces/{workspace_id}/squads", scope: "workspaces", url: onBoard + "/squads", status: 200,
		missing: noBoard + "/squads",
	},
	{
		method:  "POST",
		path:    "/api/prod_workspaces/{workspace_id}/squads",
		scope:   "workspaces",
		url:     onBoard + "/squads",
		status:  200,
		hasBody: true,
		body:    `{"name":"S","leader_id":"{agent}","members":[]}`,
		missing: noBoard + "/squads",
		bad:     []bad{{body: `{"name":"S"}`, at: "body.leader_id"}},
	},
	{
		method:  "PATCH",
		path:    "/api/prod_workspaces/{workspace_id}/squads/{squad_id}",
		scope:   "workspaces",
		url:     onBoard + "/squads/{squad}",
		status:  200,
		hasBody: true,
		body:    `{"name":"T","leader_id":"{agent}","members":[]}`,
		missing: onBoard + "/squads/" + none,
		bad:     []bad{{body: `{"name":""}`, at: "body.name"}},
	},
	{
		method:  "DELETE",
		path:    "/api/prod_workspaces/{workspace_id}/squads/{squad_id}",
		scope:   "workspaces",
		url:     onBoard + "/squads/{squad}",
		status:  200,
		missing: onBoard + "/squads/" + none,
	},
	{
		method: "GET", path: "/api/prod_workspaces/{workspace_id}/agents", scope: "workspaces", url: onBoard + "/agents", status: 200,
		missing: noBoard + "/agents",
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/assistant-session",
		scope:   "workspaces",
		url:     onBoard + "/assistant-session",
		status:  200,
		missing: noBoard + "/assistant-session",
	},
	{
		method:  "PUT",
		path:    "/api/prod_workspaces/{workspace_id}/assistant-session",
		scope:   "workspaces",
		url:     onBoard + "/assistant-session",
		status:  200,
		hasBody: true,
		body:    `{"biz_role_id":"operator","session_id":"{s}"}`,
		missing: noBoard + "/assistant-session",
		bad:     []bad{{body: `{"session_id":"x"}`, at: "body.biz_role_id"}},
	},
	{method: "DELETE", path: "/api/prod_workspaces/{workspace_id}", scope: "workspaces", url: onBoard, status: 200, missing: noBoard},
}

var issuesWalk = []call{
	{
		method: "POST", path: "/api/prod_workspaces/{workspace_id}/issues", scope: "workspaces", url: on, status: 200, hasBody: true,
		body: `{"title":"t"}`, missing: noBoard + "/issues", bad: []bad{
			{body: `{}`, at: "body.title"},
			{body: `{"title":"t","status":"x"}`, at: "body.status"},
			{body: `{"title":"t","assignee_type":"cook"}`, at: "body.assignee_type"},
			{body: `{"title":"t","due_date":"soon"}`, at: "body.due_date"},
		},
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues",
		scope:   "workspaces",
		url:     on,
		status:  200,
		missing: noBoard + "/issues",
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/query",
		scope:   "workspaces",
		url:     on + "/query?status=todo&status=done&q=x",
		status:  200,
		missing: noBoard + "/issues/query",
		bad:     []bad{{path: on + "/query?limit=101", at: "query.limit"}, {path: on + "/query?sort=x", at: "query.sort"}},
	},
	{
		method:  "POST",
		path:    "/api/prod_workspaces/{workspace_id}/issues/query",
		scope:   "workspaces",
		url:     on + "/query",
		status:  200,
		hasBody: true,
		body:    `{"status":["todo"]}`,
		missing: noBoard + "/issues/query",
		bad:     []bad{{body: `{"status":["x"]}`, at: "body.status[0]"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/grouped",
		scope:   "workspaces",
		url:     on + "/grouped?group_by=status",
		status:  200,
		missing: noBoard + "/issues/grouped",
		bad:     []bad{{path: on + "/grouped?group_by=x", at: "query.group_by"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/child-progress",
		scope:   "workspaces",
		url:     on + "/child-progress",
		status:  200,
		missing: noBoard + "/issues/child-progress",
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}",
		scope:   "workspaces",
		url:     on + "/{j}",
		status:  200,
		missing: on + "/" + none,
	},
	{
		method:  "PUT",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}",
		scope:   "workspaces",
		url:     on + "/{j}",
		status:  200,
		hasBody: true,
		body:    `{"status":"in_review"}`,
		missing: on + "/" + none,
		bad:     []bad{{body: `{"expected_revision":0}`, at: "body.expected_revision"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/comments",
		scope:   "workspaces",
		url:     on + "/{j}/comments",
		status:  200,
		missing: on + "/" + none + "/comments",
	},
	{
		method:  "POST",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/comments",
		scope:   "workspaces",
		url:     on + "/{j}/comments",
		status:  200,
		hasBody: true,
		body:    `{"content":"c"}`,
		missing: on + "/" + none + "/comments",
		bad:     []bad{{body: `{"content":""}`, at: "body.content"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/timeline",
		scope:   "workspaces",
		url:     on + "/{y}/timeline?kinds=comment&kinds=run",
		status:  200,
		missing: on + "/" + none + "/timeline",
		bad:     []bad{{path: on + "/{y}/timeline?limit=0", at: "query.limit"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs",
		scope:   "workspaces",
		url:     on + "/{y}/task-runs",
		status:  200,
		missing: on + "/" + none + "/task-runs",
	},
	{
		method:  "POST",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs",
		scope:   "workspaces",
		url:     on + "/{j}/task-runs",
		status:  200,
		hasBody: true,
		missing: on + "/" + none + "/task-runs",
		bad:     []bad{{body: `{"handoff_note":1}`, at: "body.handoff_note"}},
	},
	{
		method: "POST", path: "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs/{run_id}/cancel", scope: "workspaces",
		url: on + "/{y}/task-runs/{x}/cancel", status: 200, missing: on + "/{y}/task-runs/" + none + "/cancel",
	},
	{
		method: "DELETE", path: "/api/prod_workspaces/{workspace_id}/issues/{issue_id}", scope: "workspaces",
		url: on + "/{j}", status: 200, missing: on + "/" + none,
	},
	{
		method:  "GET",
		path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/usage",
		scope:   "workspaces",
		url:     on + "/{y}/usage",
		status:  200,
		missing: on + "/" + none + "/usage",
	},
}

func (noEngine) StartIssueRun(context.Context, string) error { return nil }

// aBoard is a workspace of ann's with an issue, one on which a run works, a guest, an agent
// instance and a squad.
type aBoard struct{ workspace, issue, worked, run, guest, agent, squad string }

// boardOfAnn makes a board, in place of those that ann has.
func (w *world) boardOfAnn() (b aBoard) {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := w.db.Pool.Exec(ctx, `DELETE FROM prod_workspaces WHERE id IN (SELECT workspace_id FROM prod_workspace_members
		WHERE user_id = $1)`, w.annID)
	require.NoError(w.t, err)
	made, err := boards.NewStore(w.db.DB).
		CreateWorkspace(ctx, w.annID, board.NewWorkspace{Name: "Board", Settings: board.DefaultWorkspaceSettings})
	require.NoError(w.t, err)
	b.workspace, b.agent = made.ID, w.agentInstance()
	b.guest, _ = w.person("guest-"+made.Slug, false)
	pgtest.Join(w.t, boards.NewStore(w.db.DB), w.annID, made.ID, b.guest, board.WorkspaceMember)
	squad, err := boards.NewStore(w.db.DB).
		CreateSquad(ctx, w.annID, made.ID, board.Squad{Name: "Squad", LeaderID: b.agent, Members: []board.SquadMember{}})
	require.NoError(w.t, err)

	b.squad = squad.ID

	issue := func(suppress bool) string {
		title := "t"
		made, _, err := boards.NewStore(w.db.DB).CreateIssue(ctx, w.annID, b.workspace, board.IssueFields{
			Title: &title, Assignee: &board.AssigneeRef{Type: board.ActorAgent, ID: b.agent}, SuppressRun: suppress,
		})
		require.NoError(w.t, err)

		if made.ActiveRun != nil {
			b.run = made.ActiveRun.ID
		}

		return made.ID
	}
	b.issue, b.worked = issue(true), issue(false)

	return b
}

func TestProdWorkspaces_roles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace
	w.do("GET", at, w.bob, "").code(404, "workspace_not_found")
	w.do("DELETE", at+"/members/"+w.annID, w.ann, "").code(409, "last_owner")
	w.joins(b.workspace, "bob", w.bob, "viewer")
	require.Equal(t, 200, w.do("GET", at+"/issues/"+b.issue, w.bob, "").status)

	for _, c := range [][3]string{
		{"POST", "/issues", `{"title":"t"}`},
		{"PUT", "/issues/" + b.issue, `{"title":"u"}`},
		{"POST", "/issues/" + b.issue + "/comments", `{"content":"c"}`},
		{"POST", "/issues/" + b.issue + "/task-runs", `{}`},
		{"POST", "/issues/" + b.worked + "/task-runs/" + b.run + "/cancel", ``},
		{"POST", "/members", `{"user_id":"root"}`},
		{"POST", "/squads", `{"name":"s","leader_id":"` + b.agent + `"}`},
		{"PATCH", "/squads/" + b.squad, `{"name":"s"}`},
		{"DELETE", "/squads/" + b.squad, ``},
		{"DELETE", "/issues/" + b.issue, ``},
		{"DELETE", "", ``},
	} {
		w.do(c[0], at+c[1], w.bob, c[2]).code(403, "workspace_role_required")
	}

	require.Equal(t, 200, w.do("POST", at+"/members", w.ann, `{"user_id":"bob","role":"admin"}`).status)
	w.do("POST", at+"/members", w.bob, `{"user_id":"root","role":"owner"}`).code(403, "workspace_role_required")
	w.do("DELETE", at+"/members/"+w.annID, w.bob, "").code(403, "workspace_role_required")

	// Members read the sessions that members have in the workspace.
	session := w.session(`{"workspace_id":"` + b.workspace + `"}`)
	require.Equal(t, "viewer", w.do("GET", "/api/sessions/"+session, w.bob, "").json()["viewer_role"])
	w.do("PATCH", "/api/sessions/"+session, w.bob, `{"intent":"x"}`).code(403, "forbidden")
	bobs := w.do("GET", "/api/auth/me", w.bob, "").json()["id"].(string)
	require.Equal(t, 200, w.do("DELETE", at+"/members/"+bobs, w.bob, "").status)
	w.do("GET", "/api/sessions/"+session, w.bob, "").code(404, "session_not_found")
}

func TestIssues_deletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace
	w.joins(b.workspace, "bob", w.bob, "member")
	w.do("DELETE", at+"/issues/"+b.issue, w.bob, "").code(403, "workspace_role_required")
	own := w.do("POST", at+"/issues", w.bob, `{"title":"mine"}`).json()["id"].(string)
	require.Equal(t, 200, w.do("DELETE", at+"/issues/"+own, w.bob, "").status, "it is of the caller")

	part := w.do("POST", at+"/issues", w.ann, `{"title":"part","parent_issue_id":"`+b.issue+`"}`).json()["id"].(string)
	require.Equal(t, 200, w.do("POST", at+"/issues/"+b.issue+"/comments", w.ann, `{"content":"c","suppress_run":true}`).status)
	require.Equal(t, 200, w.do("DELETE", at+"/issues/"+b.issue, w.ann, "").status)
	w.do("GET", at+"/issues/"+b.issue, w.ann, "").code(404, "issue_not_found")
	w.do("GET", at+"/issues/"+b.issue+"/timeline", w.ann, "").code(404, "issue_not_found")
	require.Nil(t, w.do("GET", at+"/issues/"+part, w.ann, "").json()["parent_issue_id"])

	var left int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM issue_comments WHERE issue_id = $1) + (SELECT count(*) FROM issue_activity WHERE issue_id = $1)`,
		b.issue).Scan(&left))
	require.Zero(t, left)

	// A run that works, or is being stopped, keeps its issue.
	w.do("DELETE", at+"/issues/"+b.worked, w.ann, "").code(409, "issue_run_active")

	_, err := w.db.Pool.Exec(t.Context(), `UPDATE issue_runs SET status = 'running', cancel_requested = true WHERE id = $1`, b.run)
	require.NoError(t, err)
	w.do("DELETE", at+"/issues/"+b.worked, w.ann, "").code(409, "issue_run_active")

	_, err = w.db.Pool.Exec(t.Context(), `UPDATE issue_runs SET status = 'cancelled', finished_at = now() WHERE id = $1`, b.run)
	require.NoError(t, err)
	require.Equal(t, 200, w.do("DELETE", at+"/issues/"+b.worked, w.ann, "").status)
}

func TestSquads_changeAndDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace
	squad := at + "/squads/" + b.squad
	changed := w.do("PATCH", squad, w.ann,
		`{"name":"Testers","instructions":"Look.","members":[{"member_type":"member","member_id":"`+w.annID+`","role":"lead"}]}`).json()
	require.Equal(t, []any{"Testers", b.agent, "Look."}, []any{changed["name"], changed["leader_id"], changed["instructions"]})
	require.Len(t, changed["members"], 1)
	changed = w.do("PATCH", squad, w.ann, `{"instructions":""}`).json()
	require.Equal(t, []any{"Testers", ""}, []any{changed["name"], changed["instructions"]})
	require.Len(t, changed["members"], 1)
	require.Empty(t, w.do("PATCH", squad, w.ann, `{"members":[]}`).json()["members"])
	w.do("PATCH", squad, w.ann, `{"leader_id":"`+w.annID+`"}`).code(404, "assignee_not_found")
	require.Equal(t, 200, w.do("POST", at+"/squads", w.ann, `{"name":"Others","leader_id":"`+b.agent+`"}`).status)
	w.do("PATCH", squad, w.ann, `{"name":"others"}`).code(409, "squad_name_taken")

	issue := w.do("POST", at+"/issues", w.ann, `{"title":"t","assignee_type":"squad","assignee_id":"`+b.squad+`"}`).json()
	w.do("DELETE", squad, w.ann, "").code(409, "issue_run_active")

	_, err := w.db.Pool.Exec(t.Context(), `UPDATE issue_runs SET status = 'completed', finished_at = now() WHERE squad_id = $1`, b.squad)
	require.NoError(t, err)
	require.Equal(t, 200, w.do("DELETE", squad, w.ann, "").status)
	w.do("DELETE", squad, w.ann, "").code(404, "squad_not_found")

	left := w.do("GET", at+"/issues/"+issue["id"].(string), w.ann, "").json()
	require.Equal(t, []any{nil, nil, issue["revision"].(float64) + 1}, []any{left["assignee_id"], left["assignee_type"], left["revision"]})
	timeline := w.do("GET", at+"/issues/"+issue["id"].(string)+"/timeline", w.ann, "").json()["items"].([]any)
	require.Equal(t, "assignee_changed", timeline[len(timeline)-1].(map[string]any)["action"])
	require.Equal(t, "Others", w.do("GET", at+"/squads", w.ann, "").json()["items"].([]any)[0].(map[string]any)["name"])
}

func TestIssues_revisionAndReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace + "/issues"
	parent := w.do("POST", at, w.ann, `{"title":"Parent","priority":"high","labels":["x"],"project":"p","assignee":"ann","due_date":"2030-01-01T00:00:00Z"}`).
		json()
	require.Equal(t, "BOA-3", parent["identifier"])
	require.Equal(t, "member", parent["assignee_type"])
	require.Equal(t, "ann", parent["assignee"].(map[string]any)["name"])

	id := parent["id"].(string)
	for i, status := range []string{"done", "cancelled", "blocked", "todo"} {
		r := w.do("POST", at, w.ann, fmt.Sprintf(`{"title":"Part %d","status":%q,"stage":"s%d","parent_issue_id":%q}`, i, status, i/2, id))
		require.Equal(t, 200, r.status, r.text)
	}

	progress := w.do("GET", at+"/child-progress", w.ann, "").json()["items"].([]any)[0].(map[string]any)
	require.EqualValues(t, []any{4.0, 2.0, 1.0}, []any{progress["total"], progress["done"], progress["blocked"]})
	require.Len(t, progress["by_stage"], 2)

	changed := w.do("PUT", at+"/"+id, w.ann, `{"title":"Other","status":"done","labels":["y"],"assignee_id":null,"due_date":null,"expected_revision":1}`).
		json()
	require.EqualValues(t, 2, changed["revision"])
	require.NotNil(t, changed["closed_at"])
	require.Nil(t, changed["assignee"])

	stale := w.do("PUT", at+"/"+id, w.ann, `{"title":"x","expected_revision":1}`)
	stale.code(409, "version_conflict")
	require.EqualValues(t, 2, stale.json()["current_version"])
	w.do("PUT", at+"/"+id, w.ann, `{"parent_issue_id":"`+id+`"}`).code(409, "parent_cycle")
	w.do("PUT", at+"/"+id, w.ann, `{"assignee_type":"agent","assignee_id":"none"}`).code(404, "assignee_not_found")
	w.do("PUT", at+"/"+id, w.ann, `{"assignee":"zed"}`).code(404, "assignee_not_found")
	w.do("PUT", at+"/"+id, w.bob, `{}`).code(404, "workspace_not_found")

	var actions []string

	timeline := w.do("GET", at+"/"+id+"/timeline", w.ann, "").json()
	for _, item := range timeline["items"].([]any) {
		actions = append(actions, item.(map[string]any)["action"].(string))
	}

	require.Equal(
		t,
		[]string{"created", "title_changed", "status_changed", "assignee_changed", "due_date_changed", "label_changed"},
		actions,
	)

	last := w.do("GET", at+"/"+id+"/timeline?limit=2", w.ann, "").json()
	require.Len(t, last["items"], 2)
	require.Equal(t, true, last["truncated"].(map[string]any)["activity"])
	before := w.do("GET", at+"/"+id+"/timeline?before="+last["before"].(string), w.ann, "").json()
	require.Len(t, before["items"], 4)
	require.Nil(t, before["before"])
	require.Len(t, w.do("GET", at+"/"+id+"/timeline?after="+before["after"].(string), w.ann, "").json()["items"], 2)

	require.Equal(t, 200, w.do("POST", at+"/"+id+"/comments", w.ann, `{"content":"hello"}`).status)
	comments := w.do("GET", at+"/"+id+"/timeline?kinds=comment", w.ann, "").json()
	require.Nil(t, comments["before"], "no comment is older: the activities before it were not asked for")
	require.Equal(t, map[string]any{"comments": false, "activity": false}, comments["truncated"])
	comment := comments["items"].([]any)[0].(map[string]any)
	require.Subset(t, comment, map[string]any{"content": "hello", "parent_id": nil, "resolved_at": nil, "source_run_id": nil})

	for query, total := range map[string]int{
		"": 7, "q=part": 4, "q=boa-3": 1, "status=done&status=cancelled": 3, "open_only=true": 4,
		"parent_id=" + id: 4, "top_level_only=true": 3,
		"label_ids=y": 1, "assignee_type=agent": 2, "assignee_id=none&include_no_assignee=true": 5,
		"project=p": 1, "due_before=2031-01-01T00:00:00Z": 0,
	} {
		require.EqualValues(t, total, w.do("GET", at+"/query?"+query, w.ann, "").json()["total"], query)
	}

	sorted := w.do("POST", at+"/query", w.ann, `{"sort":"priority","limit":1}`).json()
	require.Equal(t, id, sorted["items"].([]any)[0].(map[string]any)["id"])

	groups := w.do("GET", at+"/grouped?limit=1", w.ann, "").json()["groups"].([]any)
	require.Len(t, groups, 2)
	first := groups[0].(map[string]any)
	require.EqualValues(t, []any{"none:", 5.0}, []any{first["id"], first["total"]})
	require.Len(t, first["items"], 1)

	one := w.do("GET", at+"/grouped?group_by=status&group_key=status:blocked", w.ann, "").json()["groups"].([]any)
	require.Len(t, one, 1)
}

func TestAssistantSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace + "/assistant-session"
	first := w.do(http.MethodGet, at, w.ann, "").json()
	require.Equal(t, []any{true, "operator", b.workspace}, []any{first["created"], first["biz_role_id"], first["workspace_id"]})

	again := w.do(http.MethodGet, at, w.ann, "").json()
	require.Equal(t, []any{false, first["id"]}, []any{again["created"], again["id"]})

	own := w.session(`{}`)
	require.Equal(t, own, w.do(http.MethodPut, at, w.ann, `{"biz_role_id":"operator","session_id":"`+own+`"}`).json()["id"])
	require.Equal(t, own, w.do(http.MethodGet, at, w.ann, "").json()["id"])
	require.NotEqual(t, own, w.do(http.MethodGet, at+"?biz_role_id=analyst", w.ann, "").json()["id"])

	unknown := w.do(http.MethodGet, at+"?biz_role_id=nope", w.ann, "")
	unknown.code(422, "biz_role_not_found")
	require.Equal(t, []string{"query.biz_role_id"}, unknown.fields())

	bobs := w.do(http.MethodPost, "/api/sessions", w.bob, `{}`).json()["session_id"].(string)
	w.do(http.MethodPut, at, w.ann, `{"biz_role_id":"operator","session_id":"`+bobs+`"}`).code(404, "session_not_found")
}
