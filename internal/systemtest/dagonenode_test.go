package systemtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dagrun"
)

// A run of one node runs this node alone, with outputs of the newest run that has them, or with
// those of the caller.
func TestDAGRun_oneNode(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	const command = `{"tool":"Bash","arguments":{"command":"echo {{nodes.a.output.text}} of {{input.who}}"}}`

	whole := s.play(`{"id":"a","type":"tool","config":{"tool":"Bash","arguments":{"command":"printf made"}}},
		{"id":"x","type":"join"},{"id":"b","type":"tool","config":`+command+`},{"id":"c","type":"tool","config":`+command+`}`,
		strings.Join([]string{
			edge(
				"e1",
				"s",
				"a",
			),
			edge("e2", "a", "x"),
			edge("e3", "x", "b"),
			edge("e4", "b", "z"),
			edge("e5", "b", "c"),
			edge("e6", "c", "z"),
		}, ","), `{"who":"Ann"}`)
	require.Equal(t, dagrun.Completed, whole.Status, "%+v", whole.Error)

	run := func(nodeID string, one dagrun.OneNode) dagrun.RunRecord {
		t.Helper()

		one.NodeID = nodeID
		started, err := s.runs.RunNode(t.Context(), s.caller.User, whole.ProdSolutionID, one)
		require.NoError(t, err)
		require.Equal(t, nodeID, *started.NodeID)

		return s.over(started)
	}

	earlier := run("b", dagrun.OneNode{})
	require.Equal(t, dagrun.Completed, earlier.Status, "%+v", earlier.Error)
	require.Contains(t, string(earlier.Outputs), "made of Ann")
	require.JSONEq(t, `{"who":"Ann"}`, string(earlier.Inputs))

	a := s.node(earlier, "a")
	require.Equal(t, []any{dagrun.Reused, dagrun.ReusePinned}, []any{a.Status, a.ReuseReason})
	require.Equal(t, s.node(whole, "a").RunNodeID, *a.ReusedFrom)
	require.NotEqual(t, *s.node(whole, "b").SessionID, *s.node(earlier, "b").SessionID, "it ran again")

	nodes, err := s.runs.DAGRunNodes(t.Context(), earlier.ID, true)
	require.NoError(t, err)
	require.Len(t, nodes, 3, "a and x, whose outputs it is given, and b")

	pinned := run("b", dagrun.OneNode{
		Inputs: []byte(`{"who":"Bo"}`), Outputs: map[string]json.RawMessage{"a": []byte(`"pinned"`), "x": []byte(`1`)},
	})
	require.Contains(t, string(pinned.Outputs), "pinned of Bo")

	// Outputs that a run was given are not used for another one.
	require.Contains(t, string(run("b", dagrun.OneNode{}).Outputs), "made")

	_, err = s.runs.RunNode(t.Context(), s.caller.User, whole.ProdSolutionID, dagrun.OneNode{NodeID: "none"})
	require.True(t, domain.HasCode(err, dagrun.CodeNodeNotFound), "%v", err)
}

// A run of one node that failed is retried with the outputs that it was given.
func TestDAGRun_oneNodeRetried(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	whole := s.begin(`{"id":"h","type":"human","config":{"prompt":"?"}},
		{"id":"b","type":"code","config":{"code":"exit 3"},"inputs":{"given":"{{nodes.h.output}}"}}`,
		edge("e1", "s", "h")+","+edge("e2", "h", "b")+","+edge("e3", "b", "z"), `{}`)

	one := dagrun.OneNode{NodeID: "b"}
	_, err := s.runs.RunNode(t.Context(), s.caller.User, whole.ProdSolutionID, one)
	require.ErrorContains(t, err, "no run has the outputs of h")

	one.Outputs = map[string]json.RawMessage{"h": []byte(`"yes"`)}
	run, err := s.runs.RunNode(t.Context(), s.caller.User, whole.ProdSolutionID, one)
	require.NoError(t, err)

	run = s.over(run)
	require.Equal(t, dagrun.Failed, run.Status)
	require.Equal(t, dagrun.CodeToolFailed, run.Error.Code)

	_, err = s.runs.Retry(t.Context(), s.caller.User, run.ProdSolutionID, run.ID, dagrun.Resumption{FromNodeID: "b"})
	require.ErrorContains(t, err, "must be empty")

	_, err = s.runs.Retry(t.Context(), s.caller.User, run.ProdSolutionID, run.ID, dagrun.Resumption{})
	require.NoError(t, err)

	run = s.over(run)
	require.Equal(t, []any{dagrun.Failed, 1}, []any{run.Status, run.Retries})
	require.JSONEq(t, `"yes"`, string(s.node(run, "h").Outputs))
}

// A run of one node is given the files and the workspace of the run that its outputs are of.
func TestDAGRun_oneNodeWithFiles(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	whole := s.play(
		`{"id":"a","type":"code","config":{"code":"echo passed > out.txt; echo kept > own.txt"},"outputs":{"files":["out.txt"]}},
		{"id":"b","type":"code","config":{"code":"cat in/out.txt"},"inputs_files":[{"from":"a","to":"in/"}]},
		{"id":"c","type":"code","config":{"code":"cat own.txt"},"workspace":"a"}`,
		strings.Join([]string{edge("e1", "s", "a"), edge("e2", "a", "b"), edge("e3", "b", "c"), edge("e4", "c", "z")}, ","),
		`{}`,
	)
	require.Equal(t, dagrun.Completed, whole.Status, "%+v", whole.Error)

	for nodeID, want := range map[string]string{"b": "passed", "c": "kept"} {
		run, err := s.runs.RunNode(t.Context(), s.caller.User, whole.ProdSolutionID, dagrun.OneNode{NodeID: nodeID})
		require.NoError(t, err)

		run = s.over(run)
		require.Equal(t, dagrun.Completed, run.Status, "%s: %+v", nodeID, run.Error)
		require.Contains(t, string(run.Outputs), want)
	}
}
