package dagruns_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dagrun"
)

// Of a node whose activity is due, a run says how long it may be silent, and whether
// its chat waits for something outside of it.
func TestStore_WatchedUnit(t *testing.T) {
	t.Parallel()
	db, store, user, set := newStore(t)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)
	in := contract.DAGAttempt{
		DAGNode: contract.DAGNode{
			DAGTry: contract.DAGTry{RunID: "r"},
			NodeID: "a",
		},
		Item:    dagrun.NoItem,
		Attempt: 1,
		Phase:   dagrun.PhaseWork,
	}
	idle := func() bool {
		t.Helper()

		work, err := store.WatchedUnit(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, []any{dagrun.Running, session.ID}, []any{work.Unit.Status, work.Unit.SessionID})
		require.Equal(t, 90*time.Second, dagrun.Heartbeat(work.Node))

		return work.Idle
	}

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1), ('p', 'architecture', 1)`)
	set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, $1, 'd', $2, 1, 0, '')`,
		`{"nodes":[{"id":"a","type":"agent","heartbeat_s":90,"config":{"prompt":"x"}}],"edges":[]}`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r', 'p', $1, 1, 'api', 'running', '{}')`, user.ID)
	set(`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, waiting_reason)
		SELECT 'c', id, active_branch_id, 'dag', 'executing', 'running', 'tool' FROM sessions WHERE id = $1`, session.ID)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, phase, attempt, session_id, chat_id, begun, due_at)
		VALUES ('n', 'r', 'p', 'a', 'running', 'work', 1, $1, 'c', true, now() - interval '1 second')`, session.ID)

	require.False(t, idle())

	for _, waits := range []string{
		`UPDATE chats SET state = 'parked', waiting_reason = 'question'`,
		`UPDATE chats SET state = 'running', waiting_reason = 'model_unavailable'`,
		`UPDATE chats SET state = 'queued', waiting_reason = 'queued'`,
	} {
		set(waits)

		require.True(t, idle(), waits)
	}

	set(`UPDATE chats SET state = 'running', waiting_reason = 'tool'`)
	set(`INSERT INTO outbox (event_id, session_id, name, data) VALUES ('e', $1, 'turn:patch', '{}')`, session.ID)
	require.True(t, idle())
	set(`UPDATE outbox SET seq = 1, published_at = now()`)
	require.False(t, idle())

	in.Attempt = 2
	work, err := store.WatchedUnit(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, dagrun.Cancelled, work.Unit.Status, "another attempt")
}

// A version that was published before conditions were bounded: it fails its run.
func TestStore_FollowEdge_boundsCondition(t *testing.T) {
	t.Parallel()
	_, store, user, set := newStore(t)

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1), ('p', 'architecture', 1)`)
	set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, $1, 'd', $2, 1, 0, '')`, `{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"}],
		"edges":[{"id":"e","source":"s","target":"z","condition":"all({{input.a}}, all({{input.a}}, all({{input.a}}, # != 1)))"}]}`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r', 'p', $1, 1, 'api', 'running', $2)`, user.ID, `{"a":[`+strings.Repeat("0,", 30_000)+`0]}`)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id) VALUES ('s', 'r', 'p', 's'), ('z', 'r', 'p', 'z')`)

	out, err := store.FollowEdge(t.Context(), contract.DAGEdge{DAGTry: contract.DAGTry{RunID: "r"}})
	require.NoError(t, err)
	require.Equal(t, dagrun.CodeCondition, out.Failure.Code)
	require.False(t, out.Holds)
}
