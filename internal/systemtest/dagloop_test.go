package systemtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/dagrun"
)

const loopEdges = `{"id":"e1","source":"s","target":"l"},{"id":"e2","source":"l","target":"z"}`

// loop is a loop whose iterations run a command.
func loop(command, condition, more string) string {
	config, _ := json.Marshal(map[string]any{ // of texts
		"tool": "Bash", "arguments": map[string]any{"command": command}, "condition": condition, "max": 3,
	})

	return `{"id":"l","type":"loop","config":` + string(config) + more + `}`
}

// A loop repeats its body until its condition holds; an iteration knows its number, and the
// output of the one before it.
func TestDAGRun_loop(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	run := s.play(loop("printf '{{loop.previous}}{{loop.iteration}}'", `{{loop.output}} endsWith "2"`, ``), loopEdges, `{}`)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.JSONEq(t, `{"outcome":"condition_met","iterations":2,"output":"12"}`, string(run.Outputs))

	items, total, err := s.runs.DAGRunItems(t.Context(), run.ID, "l", 10, 0)
	require.NoError(t, err)
	require.Equal(t, 2, total)
	require.JSONEq(t, `"1"`, string(items[0].Outputs))
	require.NotEqual(t, *items[0].SessionID, *items[1].SessionID)

	// Its end by max is an outcome of its own, which edges can distinguish.
	run = s.play(
		loop("printf '{{loop.iteration}}'", `{{loop.previous}} == "never"`, ``)+`,{"id":"y","type":"join"}`,
		`{"id":"e1","source":"s","target":"l"},{"id":"e2","source":"l","target":"z","condition":"{{nodes.l.output.outcome}} == \"max_reached\""},
		{"id":"e3","source":"l","target":"y","condition":"{{nodes.l.output.outcome}} == \"condition_met\""},{"id":"e4","source":"y","target":"z"}`,
		`{}`,
	)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.JSONEq(t, `{"outcome":"max_reached","iterations":3,"output":"3"}`, string(run.Outputs))
	require.Equal(t, dagrun.Skipped, s.node(run, "y").Status)
}

// A loop fails with its iteration, or when its condition cannot be evaluated, or not within its
// bounds.
func TestDAGRun_loopFails(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	for name, c := range map[string]struct{ node, code, message string }{
		"iteration": {loop(`test {{loop.iteration}} != 2`, `false`, ``), dagrun.CodeToolFailed, "iteration 2 failed"},
		"condition": {loop(`echo x`, `{{loop.output}} > 1`, ``), dagrun.CodeCondition, "after iteration 1"},
		"steps": {
			loop(`echo x`, `len(filter(1..99000, # > 0)) + len(filter(1..99000, len(repeat("xxxxxxxx", 99)) > 0)) == 0`, ``),
			dagrun.CodeCondition, "",
		},
		"value": {loop(`head -c 70000 /dev/zero | tr '\0' x`, `{{loop.output}} == "x"`, ``), dagrun.CodeCondition, "65536 bytes"},
	} {
		run := s.play(c.node, loopEdges, `{}`)
		require.Equal(t, dagrun.Failed, run.Status, name)
		require.Equal(t, c.code, run.Error.Code, "%s: %s", name, run.Error.Message)
		require.Contains(t, run.Error.Message, c.message, name)
	}
}

// A completed loop is used again when a later node failed; iterations survive the loss of every
// worker between them.
func TestDAGRun_loopRetried(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	run := s.play(
		loop(
			"date +%N",
			`{{loop.iteration}} == 2`,
			``,
		)+`,{"id":"b","type":"tool","config":{"tool":"Bash","arguments":{"command":"exit 1"}}}`,
		strings.Join([]string{edge("e1", "s", "l"), edge("e2", "l", "b"), edge("e3", "b", "z")}, ","),
		`{}`,
	)
	require.Equal(t, dagrun.Failed, run.Status)

	first := s.node(run, "l")
	_, err := s.runs.Retry(t.Context(), s.caller.User, run.ProdSolutionID, run.ID, dagrun.Resumption{})
	require.NoError(t, err)

	again := s.node(s.over(run), "l")
	require.Equal(t, dagrun.Reused, again.Status)
	require.Equal(t, first.Outputs, again.Outputs)
}

// A loop of subflows continues in new workflows, and its iterations are counted once.
func TestDAGRun_loopOfSubflows(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	inner := s.play(`{"id":"j","type":"join"}`, edge("e1", "s", "j")+","+edge("e2", "j", "z"), `{}`)

	run := s.play(`{"id":"l","type":"loop","config":{"prod_solution_id":"`+inner.ProdSolutionID+`","max":300,
		"condition":"{{loop.output.n}} != {{loop.iteration}}"},"inputs":{"n":"{{loop.iteration}}"}}`, loopEdges, `{}`)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)

	var output struct {
		Outcome    string
		Iterations int
		Output     struct{ N int }
	}
	require.NoError(t, json.Unmarshal(run.Outputs, &output))
	require.Equal(t, "max_reached", output.Outcome)
	require.Equal(t, []int{300, 300}, []int{output.Iterations, output.Output.N})
}

// A condition of an edge that costs too much fails the run, and no node after it starts.
func TestDAGRun_hostileConditions(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	long, err := json.Marshal(map[string]any{"text": strings.Repeat("x", 65_537), "list": make([]int, 20_000)})
	require.NoError(t, err)

	for name, condition := range map[string]string{
		"value":  `{{input.text}} == ""`,
		"steps":  `all({{input.list}}, len(repeat("x", 90000)) > 0)`,
		"type":   `{{input.list}} > 1`,
		"memory": `len(map(1..99000, [#, #, #])) > 1`,
	} {
		encoded, err := json.Marshal(condition)
		require.NoError(t, err)

		run := s.play(`{"id":"a","type":"join"},{"id":"b","type":"join"}`, edge("e1", "s", "a")+`,
			{"id":"e2","source":"a","target":"b","condition":`+string(encoded)+`},`+edge("e3", "b", "z"), string(long))
		require.Equal(t, dagrun.Failed, run.Status, name)
		require.Equal(t, dagrun.CodeCondition, run.Error.Code, "%s: %s", name, run.Error.Message)
		require.NotEqual(t, dagrun.Completed, s.node(run, "b").Status, name)
	}
}
