package dagruns_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/service/dagruns"
)

// newStore returns a store on an empty database with one user, and a function that executes a statement.
func newStore(t *testing.T) (db *postgres.DB, store *dagruns.Store, user domain.User, set func(sql string, args ...any)) {
	t.Helper()

	db = pgtest.Open(t)
	user = pgtest.User(t, db, "owner", false)

	return db, dagruns.NewStore(db.DB), user, func(sql string, args ...any) {
		t.Helper()

		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
}

// The steps of a workflow task that fails are taken again, in their order, by the task that repeats
// it: they return the same, and what they started is not started once more.
func TestStore_repeatedTask(t *testing.T) {
	t.Parallel()

	try := contract.DAGTry{RunID: "r"}
	node := contract.DAGNode{DAGTry: try, NodeID: "n"}
	activate := contract.ActivateDAGNodeIn{DAGNode: node, Start: true}
	attempt := contract.DAGAttempt{DAGNode: node, Item: dagrun.NoItem, Attempt: 1, Phase: dagrun.PhaseWork}

	newRun := func(t *testing.T, graph string) (*dagruns.Store, func(sql string, args ...any)) {
		t.Helper()

		_, store, user, set := newStore(t)
		set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
		set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1)`)
		set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
			VALUES ('p', 'dag', 1, $2, 'd', $1, 1, 0, '')`, user.ID, `{"nodes":[`+graph+`],"edges":[]}`)
		set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
			VALUES ('r', 'p', $1, 1, 'api', 'running', '{"list":[1,2]}')`, user.ID)
		set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status) VALUES ('u', 'r', 'p', 'n', 'pending')`)

		return store, set
	}

	t.Run("claimed node", func(t *testing.T) {
		t.Parallel()

		store, _ := newRun(t, `{"id":"n","type":"agent","config":{"prompt":"x"}}`)
		step := func() (work dagrun.Work) {
			t.Helper()

			out, err := store.ActivateNode(t.Context(), activate)
			require.NoError(t, err)
			require.Equal(t, dagrun.Outcome{Status: dagrun.Ready}, out)

			unit := dagrun.Unit{NodeID: "n", Item: dagrun.NoItem, Status: dagrun.Ready, Phase: dagrun.PhaseWork}
			_, err = store.StoreRun(t.Context(), contract.StoreDAGRunIn{DAGTry: try, Units: []dagrun.Unit{unit}})
			require.NoError(t, err)
			work, err = store.Claim(t.Context(), attempt)
			require.NoError(t, err)

			return work
		}

		first := step()
		require.NoError(t, store.Began(t.Context(), first.Unit.ID, 1, &contract.BeginDAGNodeOut{ChatID: "chat"}))
		require.Equal(t, first.Unit.SessionID, step().Unit.SessionID)
	})

	t.Run("claimed node of a run that is cancelled instead", func(t *testing.T) {
		t.Parallel()

		store, _ := newRun(t, `{"id":"n","type":"agent","config":{"prompt":"x"}}`)
		_, err := store.ActivateNode(t.Context(), activate)
		require.NoError(t, err)
		work, err := store.Claim(t.Context(), attempt)
		require.NoError(t, err)

		cancelled := dagrun.Unit{NodeID: "n", Item: dagrun.NoItem, Status: dagrun.Cancelled}
		_, err = store.StoreRun(t.Context(), contract.StoreDAGRunIn{DAGTry: try, Units: []dagrun.Unit{cancelled}})
		require.NoError(t, err)

		loaded, err := store.LoadRun(t.Context(), contract.LoadDAGRunIn{RunID: "r"})
		require.NoError(t, err)
		require.True(t, loaded.Units[0].Stop)

		stopped, found, err := store.Stopping(t.Context(), "u")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, work.Unit.SessionID, stopped.Unit.SessionID)
	})

	t.Run("items of a map", func(t *testing.T) {
		t.Parallel()

		store, _ := newRun(t, `{"id":"n","type":"map","inputs":{"items":"{{input.list}}"},"config":{"prompt":"x"}}`)
		for range 2 {
			out, err := store.ActivateNode(t.Context(), activate)
			require.NoError(t, err)
			require.Equal(t, dagrun.Outcome{Status: dagrun.Running, Items: 2}, out)
		}
	})

	t.Run("iterations of a loop", func(t *testing.T) {
		t.Parallel()

		store, set := newRun(t, `{"id":"n","type":"loop","config":{"prompt":"x","condition":"{{loop.output}} == 2","max":9}}`)
		for range 2 {
			out, err := store.ActivateNode(t.Context(), activate)
			require.NoError(t, err)
			require.Equal(t, dagrun.Outcome{Status: dagrun.Running, Items: 1}, out)
		}

		set(`UPDATE dag_run_nodes SET status = 'completed', output = '1' WHERE item = 0`)

		for range 2 { // the second call finds the iteration that the first one created
			out, err := store.GatherNode(t.Context(), node)
			require.NoError(t, err)
			require.Equal(t, dagrun.Outcome{Status: dagrun.Running, Items: 2}, out)
		}

		set(`UPDATE dag_run_nodes SET status = 'completed', output = '2' WHERE item = 1`)

		for range 2 {
			out, err := store.GatherNode(t.Context(), node)
			require.NoError(t, err)
			require.Equal(t, dagrun.Completed, out.Status)
		}
	})

	t.Run("failed node", func(t *testing.T) {
		t.Parallel()

		store, set := newRun(t, `{"id":"n","type":"end"}`)
		set(`UPDATE dag_run_nodes SET status = 'failed', error_code = 'c', error_message = 'm'`)

		failure := &dagrun.NodeFailure{Code: "c", Message: "m"}
		activated, err := store.ActivateNode(t.Context(), activate)
		require.NoError(t, err)
		require.Equal(t, failure, activated.Failure)
		started, err := store.StartNode(t.Context(), node)
		require.NoError(t, err)
		require.Equal(t, failure, started.Failure)
		gathered, err := store.GatherNode(t.Context(), node)
		require.NoError(t, err)
		require.Equal(t, failure, gathered.Failure)
	})

	t.Run("failed attempt before its pause", func(t *testing.T) {
		t.Parallel()

		store, set := newRun(t, `{"id":"n","type":"agent","config":{"prompt":"x"}}`)
		set(`UPDATE dag_run_nodes SET status = 'waiting', phase = 'pause', attempt = 1, error_code = 'c', error_message = 'm'`)

		out, err := store.TakeNode(t.Context(), attempt)
		require.NoError(t, err)
		require.Equal(t, dagrun.Outcome{Status: dagrun.Failed, Failure: &dagrun.NodeFailure{Code: "c", Message: "m"}}, out)
	})

	t.Run("approved node", func(t *testing.T) {
		t.Parallel()

		store, set := newRun(t, `{"id":"n","type":"agent","config":{"prompt":"x"}}`)
		set(`UPDATE dag_run_nodes SET status = 'running', phase = 'work', attempt = 1`)

		asked := attempt
		asked.Phase = dagrun.PhaseApproval
		out, err := store.TakeNode(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, dagrun.Outcome{Status: dagrun.Completed, Approved: true}, out)
	})
}
