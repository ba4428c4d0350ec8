package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/production"
	documents "everloop/service/production"
)

const (
	noProd = "/api/prod_solution/" + none
	noDAG  = "/api/prod_solution/dag/" + none
	noArch = "/api/prod_solution/architecture/" + none

	smallDAG = `{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"}],"edges":[{"id":"e","source":"s","target":"z"}]}`
)

var prodSolutionsWalk = []call{
	{
		method: "POST", path: "/api/prod_solution", scope: "solutions", url: "/api/prod_solution", hasBody: true, status: 200,
		body: `{"name":"n","description":null,"unknown":1}`, bad: []bad{
			{body: `{}`, at: "body.name"},
			{body: `{"name":""}`, at: "body.name"},
			{body: `{"name":"x","ai_assist":"yes"}`, at: "body.ai_assist"},
			{body: `{"name":"x","flow_ai_assist":1}`, at: "body.flow_ai_assist"},
		},
	},
	{method: "GET", path: "/api/prod_solution", scope: "solutions", url: "/api/prod_solution?limit=2", status: 200, bad: []bad{
		{path: "/api/prod_solution?limit=0", at: "query.limit"}, {path: "/api/prod_solution?offset=-1", at: "query.offset"},
	}},
	{
		method:  "GET",
		path:    "/api/prod_solution/{prod_solution_id}",
		scope:   "solutions",
		url:     "/api/prod_solution/{p}",
		status:  200,
		missing: noProd,
	},
	{
		method:  "PATCH",
		path:    "/api/prod_solution/{prod_solution_id}",
		scope:   "solutions",
		url:     "/api/prod_solution/{p}",
		hasBody: true,
		status:  200,
		body:    `{"name":"m"}`,
		missing: noProd,
		bad:     []bad{{body: `{"name":""}`, at: "body.name"}, {body: `{"status":"done"}`, at: "body.status"}},
	},
	{
		method:  "PUT",
		path:    "/api/prod_solution/{prod_solution_id}/session",
		scope:   "solutions",
		url:     "/api/prod_solution/{p}/session",
		hasBody: true,
		status:  200,
		body:    `{"session_id":"{s}"}`,
		missing: noProd + "/session",
		bad:     []bad{{body: `{"session_id":""}`, at: "body.session_id"}},
	},
	{
		method:  "DELETE",
		path:    "/api/prod_solution/{prod_solution_id}",
		scope:   "solutions",
		url:     "/api/prod_solution/{p}",
		status:  200,
		missing: noProd,
	},

	{
		method:  "GET",
		path:    "/api/prod_solution/dag/{prod_solution_id}",
		scope:   "solutions",
		url:     "/api/prod_solution/dag/{p}",
		status:  200,
		missing: noDAG,
	},
	{
		method:  "PUT",
		path:    "/api/prod_solution/dag/{prod_solution_id}",
		scope:   "solutions",
		url:     "/api/prod_solution/dag/{p}",
		hasBody: true,
		status:  200,
		body:    `{"base_version":2,"dag":` + smallDAG + `}`,
		missing: noDAG,
		bad: []bad{
			{body: `{"base_version":0,"dag":{}}`, at: "body.base_version"},
			{body: `{"base_version":1}`, at: "body.dag"},
			{body: `{"base_version":1,"dag":{"nodes":{}}}`, at: "body.dag.nodes"},
			{body: `{"base_version":1,"dag":{"nodes":[{"id":"a b","type":"start"}]}}`, at: "body.dag.nodes[0].id"},
			{body: `{"base_version":1,"dag":{"nodes":[{"id":"a","type":"odd"}]}}`, at: "body.dag.nodes[0].type"},
		},
	},
	{
		method:  "POST",
		path:    "/api/prod_solution/dag/{prod_solution_id}/validate",
		scope:   "solutions",
		url:     "/api/prod_solution/dag/{p}/validate",
		hasBody: true,
		status:  200,
		body:    `{"dag":{}}`,
		missing: noDAG + "/validate",
		bad:     []bad{{body: `{}`, at: "body.dag"}, {body: `{"dag":[]}`, at: "body.dag"}},
	},
	{
		method:  "POST",
		path:    "/api/prod_solution/dag/{prod_solution_id}/publish",
		scope:   "solutions",
		url:     "/api/prod_solution/dag/{p}/publish",
		hasBody: true,
		status:  200,
		body:    `{}`,
		missing: noDAG + "/publish",
		bad:     []bad{{body: `{"version":0}`, at: "body.version"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_solution/dag/{prod_solution_id}/versions",
		scope:   "solutions",
		url:     "/api/prod_solution/dag/{p}/versions",
		status:  200,
		missing: noDAG + "/versions",
		bad:     []bad{{path: "/api/prod_solution/dag/{p}/versions?limit=0", at: "query.limit"}},
	},
	{
		method: "GET", path: "/api/prod_solution/dag/{prod_solution_id}/versions/{version}", scope: "solutions",
		url: "/api/prod_solution/dag/{p}/versions/1", status: 200, missing: "/api/prod_solution/dag/{p}/versions/9",
		bad: []bad{{path: "/api/prod_solution/dag/{p}/versions/0", at: "path.version"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_solution/dag/{prod_solution_id}/diff",
		scope:   "solutions",
		url:     "/api/prod_solution/dag/{p}/diff?from=1&to=2",
		status:  200,
		missing: "/api/prod_solution/dag/{p}/diff?from=1&to=9",
		bad:     []bad{{path: "/api/prod_solution/dag/{p}/diff?from=1", at: "query.to"}},
	},
	{
		method:  "POST",
		path:    "/api/prod_solution/dag/{prod_solution_id}/rollback",
		scope:   "solutions",
		url:     "/api/prod_solution/dag/{p}/rollback",
		hasBody: true,
		status:  200,
		body:    `{"from_version":1}`,
		missing: noDAG + "/rollback",
		bad:     []bad{{body: `{}`, at: "body.from_version"}},
	},
	{
		method: "DELETE", path: "/api/prod_solution/dag/{prod_solution_id}/versions/{version}", scope: "solutions",
		url: "/api/prod_solution/dag/{p}/versions/1", status: 200, missing: "/api/prod_solution/dag/{p}/versions/9",
	},

	{
		method:  "GET",
		path:    "/api/prod_solution/architecture/{prod_solution_id}",
		scope:   "solutions",
		url:     "/api/prod_solution/architecture/{p}",
		status:  200,
		missing: noArch,
	},
	{
		method:  "PUT",
		path:    "/api/prod_solution/architecture/{prod_solution_id}",
		scope:   "solutions",
		url:     "/api/prod_solution/architecture/{p}",
		hasBody: true,
		status:  200,
		body:    `{"base_version":2,"architecture":{"nodes":[]}}`,
		missing: noArch,
		bad: []bad{
			{body: `{"base_version":1,"architecture":{}}`, at: "body.architecture.nodes"},
			{body: `{"base_version":1,"architecture":{"nodes":[{"id":"a","type":"odd"}]}}`, at: "body.architecture.nodes[0].type"},
		},
	},
	{
		method: "POST", path: "/api/prod_solution/architecture/{prod_solution_id}/validate", scope: "solutions",
		url: "/api/prod_solution/architecture/{p}/validate", hasBody: true, status: 200, body: `{"architecture":{"nodes":[]}}`,
		missing: noArch + "/validate", bad: []bad{{body: `{}`, at: "body.architecture"}},
	},
	{
		method: "POST", path: "/api/prod_solution/architecture/{prod_solution_id}/publish", scope: "solutions",
		url: "/api/prod_solution/architecture/{p}/publish", hasBody: true, status: 200, body: `{}`, missing: noArch + "/publish",
		bad: []bad{{body: `{"version":0}`, at: "body.version"}},
	},
	{
		method: "GET", path: "/api/prod_solution/architecture/{prod_solution_id}/versions", scope: "solutions",
		url: "/api/prod_solution/architecture/{p}/versions", status: 200, missing: noArch + "/versions",
	},
	{
		method: "GET", path: "/api/prod_solution/architecture/{prod_solution_id}/versions/{version}", scope: "solutions",
		url: "/api/prod_solution/architecture/{p}/versions/1", status: 200, missing: "/api/prod_solution/architecture/{p}/versions/9",
	},
	{
		method:  "GET",
		path:    "/api/prod_solution/architecture/{prod_solution_id}/diff",
		scope:   "solutions",
		url:     "/api/prod_solution/architecture/{p}/diff?from=1&to=2",
		status:  200,
		missing: "/api/prod_solution/architecture/{p}/diff?from=9&to=1",
	},
	{
		method:  "POST",
		path:    "/api/prod_solution/architecture/{prod_solution_id}/rollback",
		scope:   "solutions",
		url:     "/api/prod_solution/architecture/{p}/rollback",
		hasBody: true,
		status:  200,
		body:    `{"from_version":1}`,
		missing: noArch + "/rollback",
		bad:     []bad{{body: `{}`, at: "body.from_version"}},
	},
	{
		method: "DELETE", path: "/api/prod_solution/architecture/{prod_solution_id}/versions/{version}", scope: "solutions",
		url: "/api/prod_solution/architecture/{p}/versions/1", status: 200, missing: "/api/prod_solution/architecture/{p}/versions/9",
	},
}

// prodSolution makes a production solution with two versions of each document.
func (w *world) prodSolution(key string) string {
	w.t.Helper()
	r := w.do("POST", "/api/prod_solution", key, `{"name":"solution"}`)
	require.Equal(w.t, 200, r.status, r.text)
	id := r.json()["id"].(string)
	require.Equal(w.t, 200, w.do("PUT", "/api/prod_solution/dag/"+id, key, `{"base_version":1,"dag":`+smallDAG+`}`).status)
	require.Equal(
		w.t,
		200,
		w.do("PUT", "/api/prod_solution/architecture/"+id, key, `{"base_version":1,"architecture":{"nodes":[]}}`).status,
	)

	return id
}

func TestProdSolutions_documents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.prodSolution(w.ann)
	at := "/api/prod_solution/dag/" + id

	read := w.do("GET", at, w.ann, "").json()
	require.EqualValues(t, 2, read["version"])
	require.Equal(t, "draft", read["status"])
	require.Equal(t, w.annID, read["updated_by"])
	content := read["dag"].(map[string]any)
	require.Len(t, content["steps"], 2, "in step with the nodes")

	first := w.do("GET", at+"/versions/1", w.ann, "").json()
	require.Equal(t, map[string]any{
		"steps": []any{}, "nodes": []any{}, "edges": []any{}, "viewport": map[string]any{"x": 0.0, "y": 0.0, "zoom": 1.0},
	}, first["dag"], "a new one is empty")

	stale := w.do("PUT", at, w.ann, `{"base_version":1,"dag":{}}`)
	stale.code(409, "version_conflict")
	require.EqualValues(t, 2, stale.json()["current_version"])
	require.Equal(t, w.annID, stale.json()["changed_by"])
	require.Equal(t, read["updated_at"], stale.json()["changed_at"])

	saved := w.do("PUT", at, w.ann, `{"base_version":2,"message":"bad","dag":{"nodes":[{"id":"a","type":"agent"}]}}`).json()
	require.Equal(t, "missing_start", saved["warnings"].([]any)[0].(map[string]any)["code"])

	failed := w.do("POST", at+"/publish", w.ann, `{}`)
	failed.code(422, "validation_failed")
	require.Equal(t, false, failed.json()["valid"])
	require.Equal(t, []any{}, failed.json()["warnings"], "the whole result, also without warnings")

	var codes []string
	for _, e := range failed.json()["errors"].([]any) {
		codes = append(codes, fmt.Sprint(e.(map[string]any)["code"], " ", e.(map[string]any)["path"]))
	}

	require.Equal(t, []string{"missing_start nodes", "missing_end nodes", "missing_config nodes[0].config.prompt"}, codes)
	w.do("POST", at+"/publish", w.ann, `{"version":1}`).code(422, "validation_failed")
	w.do("POST", at+"/publish", w.ann, `{"dag":{}}`).code(422, "validation_failed")
	w.do("POST", at+"/publish", w.ann, `{"version":2,"dag":`+smallDAG+`}`).code(409, "version_conflict")

	published := w.do("POST", at+"/publish", w.ann, `{"version":2,"message":"go"}`).json()
	require.EqualValues(t, 2, published["version"])
	require.Nil(t, published["previous_version"])
	require.Equal(t, "go", published["message"])
	w.do("DELETE", at+"/versions/2", w.ann, "").code(409, "version_published")
	published = w.do("POST", at+"/publish", w.ann, `{"version":3,"dag":`+smallDAG+`}`).json()
	require.EqualValues(t, 4, published["version"])
	require.EqualValues(t, 2, published["previous_version"])
	require.Equal(t, read["digest"], published["digest"], "the same content has the same digest")

	back := w.do("POST", at+"/rollback", w.ann, `{"from_version":3,"message":"back"}`).json()
	require.EqualValues(t, 5, back["version"])
	require.Equal(t, saved["digest"], back["digest"])
	require.Equal(t, 200, w.do("DELETE", at+"/versions/1", w.ann, "").status)
	items := w.do("GET", at+"/versions", w.ann, "").json()["items"].([]any)

	var seen []string

	for _, i := range items {
		v := i.(map[string]any)
		seen = append(seen, fmt.Sprintf("%v %v %v %v %v", v["version"], v["status"], v["published"], v["node_count"], v["edge_count"]))
	}

	require.Equal(t, []string{"5 draft false 1 0", "4 published true 2 1", "3 draft false 1 0", "2 draft false 2 1"}, seen)

	diff := w.do("GET", at+"/diff?from=2&to=3", w.ann, "").json()
	require.Len(t, diff["nodes"].(map[string]any)["added"], 1)
	require.Len(t, diff["nodes"].(map[string]any)["removed"], 2)

	w.do("PUT", at, w.ann, `{"base_version":5,"dag":{"nodes":[{"id":"a","type":"code","config":{"code":"`+strings.Repeat("x", 200_000)+`"}}]}}`).
		json()
	nodes := strings.Repeat(`{"id":"a","type":"code","config":{"code":"`+strings.Repeat("x", 200_000)+`"}},`, 21)
	w.do("PUT", at, w.ann, `{"base_version":6,"dag":{"nodes":[`+strings.TrimSuffix(nodes, ",")+`]}}`).code(413, "document_too_large")
	w.do("PUT", at, w.ann, `{"base_version":6,"dag":{"nodes":[{"id":"a","type":"agent","name":"a\u0000b"}]}}`).problem(422)
}

// A tool that there is not is found when the DAG is saved, validated and published, and not
// only when its node runs.
func TestProdSolutions_unknownToolOfANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := "/api/prod_solution/dag/" + w.prodSolution(w.ann)

	const graph = `{"dag":{"nodes":[{"id":"s","type":"start"},{"id":"a","type":"tool","config":{"tool":"bash"}},
		{"id":"b","type":"tool","config":{"tool":"Bash"}},{"id":"c","type":"tool","config":{"tool":"mcp__x__y"}},{"id":"z","type":"end"}],
		"edges":[{"id":"e1","source":"s","target":"a"},{"id":"e2","source":"a","target":"b"},{"id":"e3","source":"b","target":"c"},
		{"id":"e4","source":"c","target":"z"}]}`

	found := map[string]any{
		"code": "unknown_reference", "node_id": "a", "path": "nodes[1].config.tool",
		"message": "a node cannot call the tool bash; the tools are Bash, Read, and those of tool servers, as mcp__SERVER__TOOL",
	}
	require.Equal(t, []any{found}, w.do("POST", at+"/validate", w.ann, graph+`}`).json()["errors"])
	require.Equal(t, []any{found}, w.do("PUT", at, w.ann, graph+`,"base_version":2}`).json()["warnings"])

	found["location"] = "body.dag.nodes[1].config.tool"
	require.Equal(t, []any{found}, w.do("POST", at+"/publish", w.ann, `{}`).problem(422)["errors"])
}

// A draft that was saved by mistake can be deleted; its number is not given again.
func TestProdSolutions_deleteTheNewestVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	for kind, body := range map[string]string{"dag": `{}`, "architecture": `{"nodes":[]}`} {
		at := "/api/prod_solution/" + kind + "/" + w.prodSolution(w.ann)
		save := func(base string) float64 {
			return w.do("PUT", at, w.ann, `{"base_version":`+base+`,"`+kind+`":`+body+`}`).json()["version"].(float64)
		}

		require.Equal(t, 3.0, save("2"))
		require.Equal(t, 4.0, save("3"))

		for _, version := range []string{"4", "3"} {
			require.Equal(t, 200, w.do("DELETE", at+"/versions/"+version, w.ann, "").status)
			w.do("GET", at+"/versions/"+version, w.ann, "").code(404, "version_not_found")
		}

		require.Equal(t, 2.0, w.do("GET", at, w.ann, "").json()["version"])
		w.do("PUT", at, w.ann, `{"base_version":4,"`+kind+`":`+body+`}`).code(409, "version_conflict")
		require.Equal(t, 5.0, save("2"))
		require.Equal(t, 200, w.do("DELETE", at+"/versions/5", w.ann, "").status)
		require.Equal(t, 200, w.do("DELETE", at+"/versions/2", w.ann, "").status)
		w.do("DELETE", at+"/versions/1", w.ann, "").code(409, "version_in_use")
		require.Equal(t, 6.0, save("1"))
	}
}

// A drawing library adds fields of its own to nodes and edges.
func TestProdSolutions_fieldsOfDrawingLibraries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.prodSolution(w.ann)

	const graph = `{"version":3,"viewport":{"x":1,"y":2,"zoom":1,"locked":true},"steps":[{"node_id":"s","open":true}],"nodes":[
		{"id":"s","type":"start","data":{"label":"Start"},"width":150,"selected":false,"position":{"x":1,"y":2,"z":3}},
		{"id":"a","type":"agent","config":{"prompt":"x","color":"red"},"retry":{"max_attempts":2,"jitter":1},
		 "budget":{"max_tokens":5,"zz":1},
		 "approval":{"policy":"required","zz":1,"escalation":{"timeout_s":60,"default_answer":"Reject","zz":1}}},
		{"id":"z","type":"end","measured":{"width":1}}],
		"edges":[{"id":"e","source":"s","target":"a","target_handle":"in","animated":true},{"id":"f","source":"a","target":"z"}]}`

	at := "/api/prod_solution/dag/" + id
	require.Equal(t, true, w.do("POST", at+"/validate", w.ann, `{"dag":`+graph+`}`).json()["valid"])
	require.Equal(t, 200, w.do("PUT", at, w.ann, `{"base_version":2,"dag":`+graph+`}`).status)
	require.Equal(t, 200, w.do("POST", at+"/publish", w.ann, `{"dag":`+graph+`}`).status)

	require.NotContains(t, w.do("GET", at, w.ann, "").text, "animated", "they are ignored, and not stored")

	const drawing = `{"zz":1,"nodes":[{"id":"a","type":"service","data":{},"size":{"width":1,"height":2,"depth":3},
		"links":[{"target_id":"a","animated":true}],"refs":[{"kind":"agent","id":"x","zz":1}]}]}`

	at = "/api/prod_solution/architecture/" + id
	require.Equal(t, true, w.do("POST", at+"/validate", w.ann, `{"architecture":`+drawing+`}`).json()["valid"])
	require.Equal(t, 200, w.do("PUT", at, w.ann, `{"base_version":2,"architecture":`+drawing+`}`).status)
	require.Equal(t, 200, w.do("POST", at+"/publish", w.ann, `{"architecture":`+drawing+`}`).status)
}

func TestProdSolutions_statusAndAssistance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.prodSolution(w.ann)
	at := "/api/prod_solution/" + id
	move := func(status string) reply { return w.do("PATCH", at, w.ann, `{"status":"`+status+`"}`) }
	move("published").code(409, "invalid_status_move")
	require.Equal(t, 200, w.do("POST", "/api/prod_solution/dag/"+id+"/publish", w.ann, `{}`).status)
	require.Equal(t, "published", w.do("GET", at, w.ann, "").json()["status"])
	require.Equal(t, "draft", move("draft").json()["status"])
	require.Equal(t, "published", move("published").json()["status"])
	require.Equal(t, "archived", move("archived").json()["status"])
	move("published").code(409, "invalid_status_move")
	w.do("PUT", "/api/prod_solution/dag/"+id, w.ann, `{"base_version":2,"dag":{}}`).code(409, "prod_solution_archived")
	require.Equal(t, "draft", move("draft").json()["status"])
}

// Assistance is by an agent that has the rights of its session's owner: only they switch
// it on, and a session that is not named is made.
func TestProdSolutions_assistance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := "/api/prod_solution/" + w.prodSolution(w.ann)
	w.do("PATCH", at, w.root, `{"flow_ai_assist":true}`).code(403, "forbidden")
	w.do("PATCH", at, w.bob, `{"flow_ai_assist":true}`).code(404, "prod_solution_not_found")
	changed := w.do("PATCH", at, w.ann, `{"flow_ai_assist":true}`).json()
	require.Equal(t, []any{false, true, false}, []any{changed["ai_assist"], changed["flow_ai_assist"], changed["architecture_ai_assist"]})
	session := changed["flow_session_id"].(string)
	require.Equal(t, session, w.do("PATCH", at, w.ann, `{"flow_ai_assist":true}`).json()["flow_session_id"], "no second one")

	ann := w.do("GET", at, w.ann, "").json()["owner_id"].(string)
	assisted := func(user, session string) []production.AssistedSolution {
		found, err := documents.NewStore(w.db.DB).AssistedSolutions(t.Context(), user, domain.SessionID(session))
		require.NoError(t, err)

		return found
	}
	require.Equal(t, []domain.DocumentKind{domain.DocumentDAG}, assisted(ann, session)[0].Kinds)
	require.Empty(t, assisted(none, session), "of the owner only")
	require.Empty(t, assisted(ann, w.session(`{}`)))
	require.Equal(t, 200, w.do("PATCH", at, w.ann, `{"flow_ai_assist":false}`).status)
	require.Empty(t, assisted(ann, session))

	made := w.do("POST", "/api/prod_solution", w.ann, `{"name":"x","ai_assist":true,"architecture_ai_assist":true}`).json()
	require.NotContains(t, made, "flow_session_id")
	require.NotEqual(t, made["session_id"], made["architecture_session_id"])

	both := []domain.DocumentKind{domain.DocumentDAG, domain.DocumentArchitecture}
	require.Equal(t, both, assisted(ann, made["session_id"].(string))[0].Kinds)
}

func TestProdSolutions_sessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, session := w.prodSolution(w.ann), w.session(`{}`)
	bobs := w.do("POST", "/api/sessions", w.bob, `{}`).json()["session_id"].(string)
	roots := w.do("POST", "/api/sessions", w.root, `{}`).json()["session_id"].(string)
	at := "/api/prod_solution/" + id
	w.do("PUT", at+"/session", w.ann, `{"session_id":"`+bobs+`"}`).code(404, "session_not_found")
	w.do("PUT", at+"/session", w.root, `{"session_id":"`+roots+`"}`).code(403, "forbidden")
	w.do("POST", "/api/prod_solution", w.ann, `{"name":"x","flow_session_id":"`+bobs+`"}`).code(404, "session_not_found")
	require.Equal(t, 200, w.do("PUT", at+"/session", w.ann, `{"session_id":"`+session+`"}`).status)
	require.Equal(t, session, w.do("GET", at, w.root, "").json()["session_id"])

	var accesses int

	count := `SELECT count(*) FROM audit WHERE action = 'prod_solution.access' AND target = $1`
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), count, id).Scan(&accesses))
	require.Equal(t, 1, accesses, "of the administrator")

	made := w.do("POST", "/api/prod_solution", w.ann, `{"name":"x","flow_session_id":"`+session+`","architecture_session_id":"`+session+`"}`).
		json()
	require.Equal(t, session, made["flow_session_id"])
	require.Equal(t, session, made["architecture_session_id"])
	require.NotContains(t, made, "session_id")
}

// An Idempotency-Key makes one solution of two requests, and of writers at once one
// wins.
func TestProdSolutions_atOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	once := header("Idempotency-Key", "make-one")
	first := w.do("POST", "/api/prod_solution", w.ann, `{"name":"once"}`, once).json()["id"].(string)
	require.Equal(t, first, w.do("POST", "/api/prod_solution", w.ann, `{"name":"once"}`, once).json()["id"])

	statuses := make([]int, 4)

	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() {
			statuses[i] = w.do("PUT", "/api/prod_solution/dag/"+first, w.ann, `{"base_version":1,"dag":`+smallDAG+`}`).status
		})
	}

	wg.Wait()
	require.ElementsMatch(t, []int{200, 409, 409, 409}, statuses)
}

// Runs work with the rights of the owner: an administrator reads the solutions of others, and
// neither changes nor runs them.
func TestProdSolutions_administratorsOnlyRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.prodSolution(w.ann)
	run := w.dagRun(id)
	solution, dag, architecture := "/api/prod_solution/"+id, "/api/prod_solution/dag/"+id, "/api/prod_solution/architecture/"+id

	for _, read := range []string{solution, dag, dag + "/versions", architecture, dag + "/runs", dag + "/runs/" + run} {
		require.Equal(t, 200, w.do("GET", read, w.root, "").status, read)
	}

	const graph = `{"nodes":[{"id":"s","type":"start"},{"id":"c","type":"code","config":{"code":"env"}},{"id":"z","type":"end"}],` +
		`"edges":[{"id":"a","source":"s","target":"c"},{"id":"b","source":"c","target":"z"}]}`

	for _, c := range [][3]string{
		{"PATCH", solution, `{"name":"x"}`},
		{"PATCH", solution, `{"flow_ai_assist":true}`},
		{"PATCH", solution, `{"status":"archived"}`},
		{"PUT", dag, `{"base_version":1,"dag":` + graph + `}`},
		{"POST", dag + "/publish", `{"dag":` + graph + `}`},
		{"POST", dag + "/publish", `{}`},
		{"POST", dag + "/rollback", `{"from_version":1}`},
		{"DELETE", dag + "/versions/1", ``},
		{"PUT", architecture, `{"base_version":1,"architecture":{"nodes":[]}}`},
		{"POST", architecture + "/publish", `{}`},
		{"POST", architecture + "/rollback", `{"from_version":1}`},
		{"DELETE", architecture + "/versions/1", ``},
		{"POST", dag + "/runs", `{}`},
		{"POST", dag + "/runs/" + run + "/retry", `{}`},
		{"DELETE", solution, ``},
	} {
		w.do(c[0], c[1], w.root, c[2]).code(403, "forbidden")
		require.NotEqual(t, 403, w.do(c[0], c[1], w.bob, c[2]).status, "%s %s: it does not exist for other users", c[0], c[1])
	}

	w.do("DELETE", "/api/prod_solution/"+none, w.root, "").code(404, "prod_solution_not_found")
	require.Equal(t, 200, w.do("DELETE", solution, w.ann, "").status)
}
