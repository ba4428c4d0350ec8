package dagruns_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pgtest"
)

// What a failed run had started and not yet stopped is still stopped after its retry, by the
// workflow or by the repair, and its solution is not deleted before.
func TestStore_RetryDAGRun_keepsStops(t *testing.T) {
	t.Parallel()
	_, store, user, set := newStore(t)

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1), ('p', 'architecture', 1)`)
	set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, '{"nodes":[{"id":"w","type":"wait","config":{"wait_s":900}}],"edges":[]}', 'd', $1, 1, 0, '')`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, finished_at, created_at)
		VALUES ('r', 'p', $1, 1, 'api', 'failed', '{}', now(), now() - interval '1 hour')`, user.ID)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, attempt, session_id, stop)
		VALUES ('old', 'r', 'p', 'w', 'cancelled', 1, 's', true)`)

	require.NoError(t, store.RetryDAGRun(t.Context(), "r", dagrun.Retry{Version: 1, Inputs: []byte(`{}`), Nodes: []string{"w"}}))

	loaded, err := store.LoadRun(t.Context(), contract.LoadDAGRunIn{RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, dagrun.Running, loaded.Status)
	require.Equal(t, 1, loaded.Try)
	require.Len(t, loaded.Units, 2)

	stops := map[string]bool{}
	for _, u := range loaded.Units {
		stops[u.ID] = u.Stop
	}

	require.True(t, stops["old"])

	open, err := store.CancelDAGRunsOf(t.Context(), user, "p")
	require.NoError(t, err)
	require.Equal(t, []dagrun.Ref{{RunID: "r", SolutionID: "p"}}, open)

	require.NoError(t, store.Stopped(t.Context(), "old"))

	loaded, err = store.LoadRun(t.Context(), contract.LoadDAGRunIn{RunID: "r"})
	require.NoError(t, err)
	require.True(t, loaded.Cancel)
	require.Len(t, loaded.Units, 1)
}

// A step that is repeated after a retry of its run would write what the try before decided.
func TestStore_StoreRun_fencesEarlierTries(t *testing.T) {
	t.Parallel()
	_, store, user, set := newStore(t)

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1), ('p', 'architecture', 1)`)
	set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, '{"nodes":[{"id":"w","type":"wait"}],"edges":[]}', 'd', $1, 1, 0, '')`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, retries)
		VALUES ('r', 'p', $1, 1, 'api', 'running', '{}', 1)`, user.ID)

	end := contract.StoreDAGRunIn{DAGTry: contract.DAGTry{RunID: "r"}, Status: dagrun.Failed, Failure: &dagrun.NodeFailure{Code: "c"}}
	_, err := store.StoreRun(t.Context(), end)
	require.True(t, domain.HasCode(err, dagrun.CodeRunOver), "%v", err)

	end.Try = 1
	_, err = store.StoreRun(t.Context(), end)
	require.NoError(t, err)

	run, err := store.DAGRun(t.Context(), user, "p", "r")
	require.NoError(t, err)
	require.Equal(t, dagrun.Failed, run.Status)
}

// A request that waits for a parallel one of the same user counts its run, too.
func TestStore_CreateDAGRun_countsParallelRuns(t *testing.T) {
	t.Parallel()
	db, store, user, set := newStore(t)

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		SELECT 'r' || n, 'p', $1, 1, 'api', 'running', '{}' FROM generate_series(2, $2::int) n`, user.ID, dagrun.MaxOpenRuns)

	tx, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)

	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()

	var holder uint32

	require.NoError(
		t,
		tx.QueryRow(t.Context(), `SELECT pg_backend_pid() FROM users WHERE id = $1 FOR NO KEY UPDATE`, user.ID).Scan(&holder),
	)

	_, err = tx.Exec(t.Context(), `INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r1', 'p', $1, 1, 'api', 'running', '{}')`, user.ID)
	require.NoError(t, err)

	created := make(chan error, 1)

	go func() {
		created <- store.CreateDAGRun(t.Context(), dagrun.New{ID: "r", SolutionID: "p", OwnerID: user.ID, Version: 1, Inputs: []byte(`{}`)})
	}()

	require.Eventually(t, func() bool {
		var blocked bool

		err := db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid)))`, holder).
			Scan(&blocked)

		return err == nil && blocked
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.True(t, domain.HasCode(<-created, "dag_run_limit"))
}

// A worker still sends the message of a unit, or creates the run of its subflow, after the
// unit was stopped.
func TestStore_Stopping_refusesLateStarts(t *testing.T) {
	t.Parallel()
	db, store, user, set := newStore(t)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1), ('p', 'architecture', 1)`)
	set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, '{"nodes":[],"edges":[]}', 'd', $1, 0, 0, '')`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r', 'p', $1, 1, 'api', 'failed', '{}')`, user.ID)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, attempt, session_id, child_id, stop)
		VALUES ('n', 'r', 'p', 'a', 'cancelled', 1, $1, NULL, true), ('sub', 'r', 'p', 'b', 'cancelled', 1, NULL, 'child', true)`, session.ID)

	_, found, err := store.Stopping(t.Context(), "n")
	require.NoError(t, err)
	require.True(t, found)

	_, err = pgtest.Send(t, db, user.ID, domain.Send{
		SessionID: session.ID, ClientMessageID: dagrun.MessageID("n", 1, dagrun.PhaseWork), Waiter: "dag/p/r", Trigger: domain.TriggerDAG,
		Message: []domain.ContentPart{{Type: "text", Text: "work"}}, Delivery: domain.DeliverEnqueue,
	})
	require.True(t, domain.HasCode(err, domain.CodeSendCancelled), err)

	child := dagrun.New{
		ID: "child", SolutionID: "p", OwnerID: user.ID, Version: 1, Trigger: dagrun.TriggerSubflow, Inputs: []byte(`{}`), ParentRun: "r",
	}
	require.Error(t, store.CreateDAGRun(t.Context(), child))

	set(`UPDATE dag_run_nodes SET status = 'running', stop = false WHERE id = 'sub'`)
	require.NoError(t, store.CreateDAGRun(t.Context(), child))
}
