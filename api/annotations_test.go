package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/annotation"
)

const annotationsPath = "/api/payloads/{payload_id}/annotations"

var annotationWalk = []call{
	{
		method:  "GET",
		path:    annotationsPath,
		scope:   "sessions:read",
		url:     "/api/payloads/{s}/annotations",
		status:  200,
		missing: "/api/payloads/" + none + "/annotations",
		bad: []bad{
			{path: "/api/payloads/{s}/annotations?limit=0", at: "query.limit"},
			{path: "/api/payloads/{s}/annotations?limit=1001", at: "query.limit"},
			{path: "/api/payloads/{s}/annotations?offset=-1", at: "query.offset"},
		},
	},
	{
		method:  "POST",
		path:    annotationsPath,
		scope:   "sessions:write",
		url:     "/api/payloads/{s}/annotations",
		hasBody: true,
		status:  200,
		body:    `{"kind":"rating","target":{"path":"/workspace/a/b.txt","range":{"start":1,"end":3}},"value":4.5}`,
		missing: "/api/payloads/" + none + "/annotations",
		bad: []bad{
			{body: `{}`, at: "body.kind"},
			{body: `{"kind":"praise"}`, at: "body.kind"},
			{body: `{"kind":"bookmark"}`, at: "body.target.path"},
			{body: `{"kind":"bookmark","target":{"path":"../x"}}`, at: "body.target.path"},
			{body: `{"kind":"bookmark","target":{"path":"/etc/passwd"}}`, at: "body.target.path"},
			{body: `{"kind":"bookmark","target":{"path":"x","turn_id":"other"}}`, at: "body.target.turn_id"},
			{body: `{"kind":"bookmark","target":{"path":"x","tool_call_id":"other"}}`, at: "body.target.tool_call_id"},
			{body: `{"kind":"bookmark","target":{"path":"x","block_index":0}}`, at: "body.target.block_index"},
			{body: `{"kind":"bookmark","target":{"path":"x","range":{"start":2,"end":1}}}`, at: "body.target.range.end"},
			{body: `{"kind":"rating","target":{"path":"x"}}`, at: "body.value"},
			{body: `{"kind":"rating","target":{"path":"x"},"value":"good"}`, at: "body.value"},
			{body: `{"kind":"bookmark","target":{"path":"x"},"value":[1]}`, at: "body.value"},
			{body: `{"kind":"bookmark","target":{"path":"x"},"value":"` + strings.Repeat("ä", 1001) + `"}`, at: "body.value"},
			{body: `{"kind":"label","target":{"path":"x"}}`, at: "body.labels"},
			{body: `{"kind":"comment","target":{"path":"x"},"text":" "}`, at: "body.text"},
			{body: `{"kind":"comment","target":{"path":"x"},"text":"` + strings.Repeat("x", 10_001) + `"}`, at: "body.text"},
		},
	},
	{
		method:  "PATCH",
		path:    annotationsPath + "/{annotation_id}",
		scope:   "sessions:write",
		url:     "/api/payloads/{s}/annotations/{n}",
		hasBody: true,
		status:  200,
		body:    `{"resolved":true}`,
		missing: "/api/payloads/{s}/annotations/" + none,
		bad: []bad{
			{
				body: `{"value":{}}`,
				at:   "body.value",
			},
			{body: `{"text":5}`, at: "body.text"},
			{body: `{"resolved":"yes"}`, at: "body.resolved"},
		},
	},
	{
		method:  "DELETE",
		path:    annotationsPath + "/{annotation_id}",
		scope:   "sessions:write",
		url:     "/api/payloads/{s}/annotations/{n}",
		status:  204,
		missing: "/api/payloads/{s}/annotations/" + none,
	},
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	turn, call := w.turnWithCall(session)
	onTurn, onCall := "/api/payloads/"+turn+"/annotations", "/api/payloads/"+call+"/annotations"
	onFiles := "/api/payloads/" + session + "/annotations"

	made := w.do("POST", onTurn, w.ann, `{"kind":"comment","target":{"block_index":1},"text":"why?","labels":["a"]}`).json()
	for field, want := range map[string]any{
		"payload_id": turn, "kind": "comment", "value": nil, "text": "why?", "labels": []any{"a"}, "author_id": w.annID, "resolved_at": nil,
		"target": map[string]any{"block_index": 1.0},
	} {
		require.Equal(t, want, made[field], field)
	}

	require.Contains(t, w.do("POST", onTurn, w.ann, `{"kind":"bookmark","target":{"block_index":2}}`).fields(), "body.target.block_index")
	require.Equal(t, "gut", w.do("POST", onCall, w.ann, `{"kind":"correction","value":"gut","text":"better"}`).json()["value"])
	require.Equal(
		t,
		"b.txt",
		w.do("POST", onFiles, w.ann, `{"kind":"label","target":{"path":"a/../b.txt"},"labels":["x"]}`).json()["target"].(map[string]any)["path"],
	)

	rated := w.do("POST", onTurn, w.ann, `{"kind":"rating","value":0}`).json()
	require.Equal(t, 0.0, rated["value"])

	page := w.do("GET", onTurn+"?limit=1", w.ann, "").json()
	require.Equal(t, 2.0, page["total"])
	require.Equal(t, made["id"], page["items"].([]any)[0].(map[string]any)["id"], "oldest first")
	require.Equal(t, rated["id"], w.do("GET", onTurn+"?offset=1", w.ann, "").json()["items"].([]any)[0].(map[string]any)["id"])

	one := onTurn + "/" + made["id"].(string)
	changed := w.do("PATCH", one, w.ann, `{"text":"because","labels":[],"value":3,"resolved":true}`).json()
	require.Equal(t, []any{"because", []any{}, 3.0}, []any{changed["text"], changed["labels"], changed["value"]})
	require.NotNil(t, changed["resolved_at"])
	require.Equal(t, changed["resolved_at"], w.do("PATCH", one, w.ann, `{"resolved":true}`).json()["resolved_at"])
	again := w.do("PATCH", one, w.ann, `{"value":null,"resolved":false}`).json()
	require.Equal(t, []any{nil, nil, "because"}, []any{again["value"], again["resolved_at"], again["text"]})
	require.Contains(t, w.do("PATCH", one, w.ann, `{"text":null}`).fields(), "body.text", "a comment keeps a text")
	w.do("PATCH", onCall+"/"+made["id"].(string), w.ann, `{"resolved":true}`).code(404, "annotation_not_found")
}

// Who may see the session may annotate it; the notes of others are theirs to change, and
// the session's owner's to resolve and to delete.
func TestAnnotations_rights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	turn, _ := w.turnWithCall(session)
	path := "/api/payloads/" + turn + "/annotations"

	w.do("GET", path, w.bob, "").code(404, "payload_not_found")
	w.do("POST", path, w.bob, `{"kind":"bookmark"}`).code(404, "payload_not_found")
	require.Equal(t, 200, w.do("PATCH", "/api/sessions/"+session+"/sharing", w.ann, `{"shared":true}`).status)

	ofBob := path + "/" + w.do("POST", path, w.bob, `{"kind":"comment","text":"mine"}`).json()["id"].(string)
	ofAnn := path + "/" + w.do("POST", path, w.ann, `{"kind":"comment","text":"mine"}`).json()["id"].(string)
	w.do("PATCH", ofBob, w.ann, `{"text":"ann's"}`).code(403, "not_the_author")
	w.do("PATCH", ofAnn, w.bob, `{"resolved":true}`).code(403, "not_the_author")
	w.do("DELETE", ofAnn, w.bob, "").code(403, "not_the_author")
	require.Equal(t, 200, w.do("PATCH", ofBob, w.ann, `{"resolved":true}`).status)
	require.Equal(t, 204, w.do("DELETE", ofBob, w.ann, "").status)
	require.Equal(t, 204, w.do("DELETE", ofAnn, w.root, "").status)

	require.Equal(t, 200, w.do("PATCH", "/api/sessions/"+session+"/sharing", w.ann, `{"shared":false}`).status)
	w.do("GET", path, w.bob, "").code(404, "payload_not_found")
}

// A node of a run of a DAG is annotated by those who may see its production solution.
func TestAnnotations_nodesOfRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	solution := w.prodSolution(w.ann)
	run := w.do("POST", "/api/prod_solution/dag/"+solution+"/runs", w.ann, `{"version":2}`).json()["id"].(string)

	nodes := w.do("GET", "/api/prod_solution/dag/"+solution+"/runs/"+run, w.ann, "").json()["nodes"].([]any)
	node := nodes[0].(map[string]any)["run_node_id"].(string)
	path := "/api/payloads/" + node + "/annotations"

	made := w.do("POST", path, w.ann, `{"kind":"comment","text":"slow","target":{"range":{"start":0,"end":3}}}`).json()
	require.Equal(t, node, made["payload_id"])
	require.Equal(t, 1.0, w.do("GET", path, w.ann, "").json()["total"])
	require.Equal(t, "fixed", w.do("PATCH", path+"/"+made["id"].(string), w.ann, `{"text":"fixed","resolved":true}`).json()["text"])

	for target, at := range map[string]string{
		`{"turn_id":"x"}`: "body.target.turn_id", `{"block_index":0}`: "body.target.block_index", `{"path":"a.txt"}`: "body.target.path",
	} {
		require.Equal(t, []string{at}, w.do("POST", path, w.ann, `{"kind":"bookmark","target":`+target+`}`).fields())
	}

	w.do("GET", path, w.bob, "").code(404, "payload_not_found")
	w.do("POST", path, w.bob, `{"kind":"bookmark"}`).code(404, "payload_not_found")

	restricted := w.do("POST", "/api/user/api-keys/", w.ann, `{"name":"k","scopes":["sessions:write"]}`).json()["plaintext"].(string)
	w.do("GET", path, restricted, "").code(403, "scope_missing")

	require.Equal(t, 1.0, w.do("GET", path, w.root, "").json()["total"])
	require.Contains(t, w.do("GET", "/api/admin/audit?action=prod_solution.access", w.root, "").text, solution)
	require.Equal(t, 204, w.do("DELETE", path+"/"+made["id"].(string), w.root, "").status)

	require.Equal(t, 200, w.do("POST", path, w.ann, `{"kind":"bookmark"}`).status)
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE dag_runs SET status = 'cancelled', finished_at = now() WHERE id = $1`, run)
	require.NoError(t, err)
	require.Equal(t, 200, w.do("DELETE", "/api/prod_solution/"+solution, w.ann, "").status, "with its runs and their annotations")
	w.do("GET", path, w.ann, "").code(404, "payload_not_found")
}

func TestAnnotations_areLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	_, err := w.db.Pool.Exec(t.Context(), `
		INSERT INTO annotations (id, session_id, payload_id, kind, author_id)
		SELECT 'a' || n, $1, $1, 'bookmark', $2 FROM generate_series(1, $3) AS n`, session, w.annID, annotation.MaxOfPayload-1)
	require.NoError(t, err)

	path, body := fmt.Sprintf("/api/payloads/%s/annotations", session), `{"kind":"bookmark","target":{"path":"x"}}`
	require.Equal(t, 200, w.do("POST", path, w.ann, body).status, w.log.String())
	w.do("POST", path, w.ann, body).code(409, "too_many_annotations")
	require.Len(t, w.do("GET", path+"?limit=1000", w.ann, "").json()["items"], annotation.MaxOfPayload)
}

// turnWithCall gives a session a turn of two blocks and a tool call.
func (w *world) turnWithCall(session string) (turn, call string) {
	w.t.Helper()

	turn, call = domain.NewID(), domain.NewToolCallID()
	for _, sql := range []string{
		`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
		 SELECT $2, id, active_branch_id, 'user', 'executing', 'ended' FROM sessions WHERE id = $1 AND $3 <> ''`,
		`INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, loop_id, blocks)
		 SELECT $2, id, active_branch_id, 0, $2, 'assistant', 'completed', 'root', '[{"type":"text"},{"type":"text"}]'
		 FROM sessions WHERE id = $1 AND $3 <> ''`,
		`INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
		 VALUES ($3, $1, $2, $2, 0, 'Bash', 'Bash', '{}', 'done', 'finished')`,
	} {
		_, err := w.db.Pool.Exec(w.t.Context(), sql, session, turn, call)
		require.NoError(w.t, err)
	}

	return turn, call
}
