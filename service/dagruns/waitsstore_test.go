package dagruns_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/dagrun"
	"everloop/infra/postgres/pgtest"
	"everloop/service/dagruns"
	"everloop/service/production"
)

// A run whose only work is a subflow waits for what that waits for, at any depth.
func TestStore_DAGRun_waitsForItsSubflows(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	store := dagruns.NewStore(db.DB)
	user := pgtest.User(t, db, "owner", false)
	set := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	set(`INSERT INTO prod_solutions (id, owner_id, name) SELECT 'p' || n, $1, 'p' FROM generate_series(1, 3) n`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p1', 'dag', 1), ('p1', 'architecture', 1)`)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, parent_run) VALUES
		('r1', 'p1', $1, 1, 'api', 'running', '{}', NULL), ('r2', 'p2', $1, 1, 'subflow', 'running', '{}', 'r1')`, user.ID)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, child_id) VALUES
		('n1', 'r1', 'p1', 'sub', 'running', 'r2'), ('n2', 'r2', 'p2', 'sub', 'running', 'r3')`)

	shown := func() (dagrun.Status, string) {
		t.Helper()
		run, err := store.DAGRun(t.Context(), user, "p1", "r1")
		require.NoError(t, err)
		nodes, err := store.DAGRunNodes(t.Context(), "r1", true)
		require.NoError(t, err)
		require.Len(t, nodes, 1)
		require.Equal(t, []any{run.Status, run.WaitingReason}, []any{nodes[0].Status, nodes[0].Reason}, "of the run and of its node")

		page, _, err := store.DAGRuns(t.Context(), user, "p1", 10, 0)
		require.NoError(t, err)
		require.Equal(t, run, page[0])
		solution, err := production.NewStore(db.DB).ProdSolution(t.Context(), user, "p1")
		require.NoError(t, err)
		require.Equal(t, string(run.Status), solution.LastRun.Status)

		return run.Status, run.WaitingReason
	}
	expect := func(status dagrun.Status, reason string) {
		t.Helper()

		gotStatus, gotReason := shown()
		require.Equal(t, []any{status, reason}, []any{gotStatus, gotReason})
	}

	expect(dagrun.Running, "none") // the innermost run is not there yet
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, parent_run)
		VALUES ('r3', 'p3', $1, 1, 'subflow', 'running', '{}', 'r2')`, user.ID)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status) VALUES ('n3', 'r3', 'p3', 'pause', 'waiting')`)
	expect(dagrun.Waiting, "timer")
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, session_id)
		VALUES ('n4', 'r3', 'p3', 'work', 'running', 's')`)
	expect(dagrun.Running, "none")
	set(`UPDATE dag_run_nodes SET status = 'completed' WHERE id = 'n4'`)
	expect(dagrun.Waiting, "timer")
	set(`UPDATE dag_run_nodes SET status = 'completed' WHERE id IN ('n2', 'n3')`)
	expect(dagrun.Running, "none")
}
