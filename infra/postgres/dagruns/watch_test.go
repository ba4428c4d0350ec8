package dagruns_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pgtest"
)

// Of a node whose activity is due, a run says how long it may be silent, and whether
// its chat waits for something outside of it.
func TestStore_AdvanceDAGRun_watch(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "owner", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	set := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	advance := func() dagrun.Step {
		t.Helper()

		step, err := db.AdvanceDAGRun(t.Context(), "r")
		require.NoError(t, err)

		return step
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

	due := dagrun.Watch{ID: "n", Attempt: 1, SessionID: session.ID, Limit: 90 * time.Second}
	require.Equal(t, []dagrun.Watch{due}, advance().Watch)

	for _, waits := range []string{
		`UPDATE chats SET state = 'parked', waiting_reason = 'question'`,
		`UPDATE chats SET state = 'running', waiting_reason = 'model_unavailable'`,
		`UPDATE chats SET state = 'queued', waiting_reason = 'queued'`,
	} {
		set(waits)

		waiting := due
		waiting.Waits = true
		require.Equal(t, []dagrun.Watch{waiting}, advance().Watch, waits)
	}

	set(`UPDATE chats SET state = 'running', waiting_reason = 'tool'`)
	set(`INSERT INTO outbox (event_id, session_id, name, data) VALUES ('e', $1, 'turn:patch', '{}')`, session.ID)

	unpublished := due
	unpublished.Waits = true
	require.Equal(t, []dagrun.Watch{unpublished}, advance().Watch)
	set(`UPDATE outbox SET seq = 1, published_at = now()`)
	require.Equal(t, []dagrun.Watch{due}, advance().Watch)

	require.NoError(t, db.WatchDAGUnit(t.Context(), "n", 1, time.Now().Add(time.Hour)))

	step := advance()
	require.Empty(t, step.Watch)
	require.WithinDuration(t, time.Now().Add(time.Hour), *step.WakeAt, 10*time.Minute)

	require.NoError(t, db.FailDAGUnit(t.Context(), "n", 0, dagrun.CodeHeartbeat, "an older attempt"))
	require.Empty(t, advance().Stop)
	require.NoError(t, db.FailDAGUnit(t.Context(), "n", 1, dagrun.CodeHeartbeat, "silent"))
	require.Len(t, advance().Stop, 1)

	nodes, err := db.DAGRunNodes(t.Context(), "r", false)
	require.NoError(t, err)
	require.Equal(t, &dagrun.NodeFailure{Code: dagrun.CodeHeartbeat, Message: "silent"}, nodes[0].Error)
}

// A version that was published before conditions were bounded: its run fails at the first
// step, and the count of failed attempts is reset by each step.
func TestStore_AdvanceDAGRun_boundsCondition(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "owner", false)

	set := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1), ('p', 'architecture', 1)`)
	set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, $1, 'd', $2, 1, 0, '')`, `{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"}],
		"edges":[{"id":"e","source":"s","target":"z","condition":"all({{input.a}}, all({{input.a}}, all({{input.a}}, # != 1)))"}]}`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r', 'p', $1, 1, 'api', 'running', $2)`, user.ID, `{"a":[`+strings.Repeat("0,", 30_000)+`0]}`)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id) VALUES ('s', 'r', 'p', 's'), ('z', 'r', 'p', 'z')`)

	for want := 1; want <= 2; want++ {
		failed, err := db.CountDAGAdvance(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, want, failed)
	}

	step, err := db.AdvanceDAGRun(t.Context(), "r")
	require.NoError(t, err)
	require.True(t, step.Ended)

	var (
		code     string
		advances int
	)

	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT error_code, advances FROM dag_runs`).Scan(&code, &advances))
	require.Equal(t, dagrun.CodeCondition, code)
	require.Zero(t, advances)
}
