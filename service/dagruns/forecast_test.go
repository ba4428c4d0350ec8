package dagruns_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

func TestStore_NodeForecasts(t *testing.T) {
	t.Parallel()
	_, store, user, set := newStore(t)

	agent := dag.Node{ID: "a", Type: dag.Agent, Config: &dag.Config{Prompt: "x"}}
	each := dag.Node{ID: "m", Type: dag.Map, Config: &dag.Config{Prompt: "x"}}
	wait := dag.Node{ID: "w", Type: dag.Wait, Config: &dag.Config{WaitS: 30}}
	fresh := dag.Node{ID: "n", Type: dag.Agent, Config: &dag.Config{Prompt: "new"}}
	branch := dag.Node{ID: "b", Type: dag.Agent}
	g := dag.Graph{Nodes: []dag.Node{agent, each, wait, fresh, branch}}

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)

	runs, nodes, err := store.NodeForecasts(t.Context(), "p", g)
	require.NoError(t, err)
	require.Zero(t, runs)
	require.Empty(t, nodes)

	// Eleven completed runs, of 10, 20, … 110 seconds, a failed one and one of a single node.
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, finished_at, node_id)
		SELECT 'r' || lpad(n::text, 2, '0'), 'p', $1, 1, 'api', CASE n WHEN 12 THEN 'failed' ELSE 'completed' END, '{}', now(),
		       CASE n WHEN 13 THEN 'a' END
		FROM   generate_series(1, 13) n`, user.ID)

	for _, n := range []dag.Node{agent, each, wait, branch} {
		set(
			`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, definition, started_at, finished_at, input_tokens, cost_nano)
			SELECT r.id || $1, r.id, 'p', $1, CASE WHEN $1 = 'b' AND r.id <> 'r01' THEN 'skipped' ELSE 'completed' END, $2, now(),
			       now() + substr(r.id, 2)::int * CASE $1 WHEN 'w' THEN 0 ELSE 10 END * interval '1 second',
			       CASE $1 WHEN 'a' THEN 100 ELSE 0 END, CASE $1 WHEN 'a' THEN 5e8 ELSE 0 END
			FROM   dag_runs r`,
			n.ID,
			dagrun.Definition(n),
		)
	}

	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, item, status, input_tokens, output_tokens, uncosted_tokens)
		SELECT r.id || 'i' || i, r.id, 'p', 'm', i, 'completed', 10, 5, 15 FROM dag_runs r, generate_series(0, 1) i`)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, definition, input_tokens)
		SELECT r.id || 'n', r.id, 'p', 'n', 'completed', 'of another prompt', 1000 FROM dag_runs r`)

	runs, nodes, err = store.NodeForecasts(t.Context(), "p", g)
	require.NoError(t, err)
	require.Equal(t, 11, runs)
	require.Equal(t, dagrun.NodeForecast{
		NodeID: "a", Runs: 11, DurationS: &dagrun.Estimate{Median: 60, P90: 100}, Tokens: &dagrun.Estimate{Median: 100, P90: 100},
		CostUSD: &dagrun.Estimate{Median: 0.5, P90: 0.5},
	}, nodes["a"])
	require.Equal(t, &dagrun.Estimate{Median: 30, P90: 30}, nodes["m"].Tokens, "of its items")
	require.Nil(t, nodes["m"].CostUSD, "its model has no price")
	require.Equal(t, &dagrun.Estimate{Median: 30, P90: 30}, nodes["w"].DurationS)
	require.NotContains(t, nodes, "n", "its definition has changed")
	require.Equal(t, 1, nodes["b"].Runs)
	require.Equal(t, &dagrun.Estimate{}, nodes["b"].DurationS, "most runs skip it")
}
