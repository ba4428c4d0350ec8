package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/operator"
)

// engine is a workflow engine with one open run.
type engine struct{ ended map[string]string }

const waitingRun = "session/waiting"

const openRun = "session/01a1feca-3224-7e46-9d7f-967ca05e2f96"

func (e *engine) Runs(_ context.Context, q operator.RunQuery) ([]operator.Run, []byte, error) {
	if q.Status == "failed" || string(q.Page) == "more" {
		return nil, nil, nil
	}

	run := operator.Run{
		WorkflowID: openRun, Type: "Chat", Kind: "chat", Status: "running", StartedAt: time.Now(),
		Actions: []operator.RunAction{operator.RunCancel},
	}

	return []operator.Run{run}, []byte("more"), nil
}

func (e *engine) Cancel(_ context.Context, id string) error { return e.end(id, "cancelled") }

func (e *engine) ForceFail(_ context.Context, id, reason string) error { return e.end(id, reason) }

func (e *engine) Resume(_ context.Context, id string) error {
	if id == waitingRun {
		return domain.Newf(domain.Conflict, "run_waits_for_answer", "the chat waits for an answer of its user: there is nothing to resume")
	}

	return e.end(id, "resumed")
}

func (e *engine) end(id, how string) error {
	if id != openRun {
		return domain.Newf(domain.NotFound, "run_not_found", "no run with the id %s is open", id)
	}

	e.ended[id] = how

	return nil
}

const encodedRun = "/api/admin/runs/session%2F01a1feca-3224-7e46-9d7f-967ca05e2f96"

var runsWalk = []call{
	{method: "GET", path: "/api/inbox", scope: "sessions:read", url: "/api/inbox", status: 200, bad: []bad{
		{
			path: "/api/inbox?limit=0",
			at:   "query.limit",
		},
		{path: "/api/inbox?limit=201", at: "query.limit"},
		{path: "/api/inbox?offset=-1", at: "query.offset"},
	}},
	{
		method:  "POST",
		path:    "/api/inbox/{question_id}/answer",
		scope:   "chat",
		url:     "/api/inbox/" + openQuestion + "/answer",
		status:  200,
		hasBody: true,
		body:    `{"selections":{"0":[0]}}`,
		missing: "/api/inbox/" + none + "/answer",
		bad: []bad{
			{body: `{}`, at: "body.selections"},
			{body: `{"selections":{"0":["red"]}}`, at: "body.selections"},
			{body: `{"custom":{"0":5}}`, at: "body.custom"},
			{body: `{"selections":{"0":[99]}}`, at: "body"},
		},
	},
	{method: "GET", path: "/api/admin/runs", scope: "admin", url: "/api/admin/runs?status=running", status: 200, admin: true, bad: []bad{
		{path: "/api/admin/runs?limit=0", at: "query.limit"},
		{path: "/api/admin/runs?limit=201", at: "query.limit"},
		{path: "/api/admin/runs?status=odd", at: "query.status"},
		{path: "/api/admin/runs?kind=odd", at: "query.kind"},
	}},
	{
		method:  "POST",
		path:    "/api/admin/runs/{workflow_id}/cancel",
		scope:   "admin",
		url:     encodedRun + "/cancel",
		status:  200,
		admin:   true,
		missing: "/api/admin/runs/none/cancel",
	},
	{
		method:  "POST",
		path:    "/api/admin/runs/{workflow_id}/force-fail",
		scope:   "admin",
		url:     encodedRun + "/force-fail",
		hasBody: true,
		body:    `{"reason":"gone"}`,
		status:  200,
		admin:   true,
		missing: "/api/admin/runs/none/force-fail",
		bad:     []bad{{body: `{"reason":5}`, at: "body.reason"}},
	},
	{
		method:  "POST",
		path:    "/api/admin/runs/{workflow_id}/resume",
		scope:   "admin",
		url:     encodedRun + "/resume",
		status:  200,
		admin:   true,
		missing: "/api/admin/runs/none/resume",
	},
}

func TestInboxListsOpenQuestionsOfAllSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	first, second := w.session(`{"intent":"one"}`), w.session(`{"intent":"two"}`)
	for i, session := range []string{first, second} {
		_, err := w.db.Pool.Exec(t.Context(), `
			WITH c AS (INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
			           SELECT 'c' || $1, id, active_branch_id, 'user', 'executing', 'parked' FROM sessions WHERE id = $1 RETURNING *),
			     e AS (INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status)
			           SELECT 'e' || $1, session_id, branch_id, 0, id, 'assistant', 'paused' FROM c),
			     t AS (INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name,
			         display_name, arguments, status, phase)
			           SELECT 't' || $1, session_id, id, 'e' || $1, 0, 'AskUserQuestion',
			               'Question', '{}', 'awaiting_answer', 'queued' FROM c),
			     q AS (INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, asked_at)
			           SELECT 'q' || $1, session_id, id, 'e' || $1, 't' || $1, 'root', '[{"question":"Which?"}]',
			               now() - $2 * interval '1 hour' FROM c)
			UPDATE sessions SET status = 'waiting_for_input' WHERE id = $1`, session, i)
		require.NoError(t, err)
	}

	list := w.do("GET", "/api/inbox", w.ann, "").json()
	require.EqualValues(t, 2, list["total"])
	oldest := list["items"].([]any)[0].(map[string]any)
	require.Equal(t, second, oldest["session_id"])
	require.Equal(t, "two", oldest["intent"])
	require.Equal(t, "t"+second, oldest["tool_call_id"])
	require.Equal(t, "question", oldest["kind"])
	require.Equal(t, "Which?", oldest["questions"].([]any)[0].(map[string]any)["question"])

	list = w.do("GET", "/api/inbox?limit=1&offset=5", w.ann, "").json()
	require.EqualValues(t, 2, list["total"])
	require.Empty(t, list["items"])
	require.EqualValues(t, 0, w.do("GET", "/api/inbox", w.bob, "").json()["total"])
}

func TestAdministratorsEndRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("POST", encodedRun+"/cancel", w.ann, "").problem(403)
	require.Equal(t, 200, w.do("POST", encodedRun+"/force-fail", w.root, "").status)
	trail := w.do("GET", "/api/admin/audit?action=run.force_fail", w.root, "").json()
	require.Equal(t, openRun, trail["items"].([]any)[0].(map[string]any)["target"])
	w.do("POST", encodedRun+"/resume", w.ann, "").problem(403)
	require.Equal(t, 200, w.do("POST", encodedRun+"/resume", w.root, "").status)
	require.Equal(t, "run_waits_for_answer", w.do("POST", "/api/admin/runs/session%2Fwaiting/resume", w.root, "").problem(409)["code"])
	trail = w.do("GET", "/api/admin/audit?action=run.resume", w.root, "").json()
	require.Len(t, trail["items"], 1) // what was refused changed nothing
	require.Equal(t, 200, w.do("GET", "/api/admin/runs?status=lost&kind=dag", w.root, "").status)
	page := w.do("GET", "/api/admin/runs", w.root, "").json()
	require.NotEmpty(t, page["next_page"])
	page = w.do("GET", "/api/admin/runs?page="+page["next_page"].(string), w.root, "").json()
	require.Empty(t, page["items"])
	require.Empty(t, page["next_page"])
	require.Equal(t, []string{"query.page"}, w.do("GET", "/api/admin/runs?page=%25%25", w.root, "").fields())
	w.do("GET", "/api/admin/runs?session_id=a%5C%27%20OR%201%3D1", w.root, "").problem(422)
	w.do("POST", "/api/admin/runs/a%00b/cancel", w.root, "").problem(422)
}
