package dagrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

func TestForecastOf(t *testing.T) {
	t.Parallel()

	g := dag.Graph{
		Nodes: []dag.Node{{ID: "s"}, {ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "z"}},
		Edges: []dag.Edge{
			{Source: "s", Target: "a"},
			{Source: "s", Target: "b"},
			{Source: "b", Target: "c"},
			{Source: "a", Target: "z"},
			{Source: "c", Target: "z"},
		},
	}
	nodes := map[string]dagrun.NodeForecast{}

	for id, e := range map[string]dagrun.Estimate{
		"s": {}, "a": {Median: 5, P90: 30}, "b": {Median: 4, P90: 6}, "c": {Median: 3, P90: 4}, "z": {},
	} {
		nodes[id] = dagrun.NodeForecast{Runs: 3, DurationS: &e, Tokens: &e, CostUSD: &e}
	}

	out := dagrun.ForecastOf(g, 2, 3, nodes)
	require.Equal(t, []string{"s", "b", "c", "z"}, out.CriticalPath)
	require.Equal(t, &dagrun.Estimate{Median: 7, P90: 30}, out.DurationS, "p90 has a critical path of its own")
	require.Equal(t, &dagrun.Estimate{Median: 12, P90: 40}, out.Tokens)
	require.Len(t, out.Nodes, 5)

	require.Nil(t, dagrun.ForecastOf(dag.Graph{}, 1, 1, nil).Tokens)
	require.NotNil(t, dagrun.ForecastOf(dag.Graph{}, 1, 1, nil).CriticalPath)

	// Nothing is invented for a node without runs, or without prices.
	nodes["c"] = dagrun.NodeForecast{Runs: 3, DurationS: nodes["c"].DurationS, Tokens: nodes["c"].Tokens}
	out = dagrun.ForecastOf(g, 2, 3, nodes)
	require.Nil(t, out.CostUSD)
	require.NotNil(t, out.Tokens)

	delete(nodes, "a")
	out = dagrun.ForecastOf(g, 2, 3, nodes)
	require.Nil(t, out.DurationS)
	require.Nil(t, out.Tokens)
	require.Empty(t, out.CriticalPath)
	require.Equal(t, "a", out.Nodes[1].NodeID)
}
