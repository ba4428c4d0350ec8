package dagruns

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

func codeWork(code string, inputs map[string]any) dagrun.Work {
	return dagrun.Work{
		Node:    dag.Node{ID: "a", Type: dag.Code, Config: &dag.Config{Code: code}},
		Request: &dagrun.Request{Inputs: inputs, Before: []dagrun.Before{{NodeID: "b", Output: "out"}}},
	}
}

// command returns the command of a call, with its time limit in milliseconds.
func command(t *testing.T, call *domain.ScriptedCall) (text string, timeout int64) {
	t.Helper()
	require.Equal(t, "Bash", call.Tool)

	var in struct {
		Command string `json:"command"`
		Timeout int64  `json:"timeout"`
	}
	require.NoError(t, json.Unmarshal(call.Arguments, &in))

	return in.Command, in.Timeout
}

func TestScriptOf_inputs(t *testing.T) {
	t.Parallel()

	given := map[string]any{"word": "it's \"$HOME\" `id`\nand '\\''", "list": []any{1.5, "x"}}
	for name, c := range map[string]struct{ inputs, want map[string]any }{
		"given": {given, given}, "before": {nil, map[string]any{"b": "out"}},
	} {
		call, err := scriptOf(codeWork(`printf %s "$INPUTS"`, c.inputs), time.Minute)
		require.NoError(t, err, name)

		text, _ := command(t, call)
		written, err := exec.CommandContext(t.Context(), "bash", "-c", text).Output()
		require.NoError(t, err, name)

		var got map[string]any

		require.NoError(t, json.Unmarshal(written, &got), name)
		require.Equal(t, c.want, got, name)
	}
}

func TestScriptOf_timeout(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		node *int
		want int64
	}{"none": {nil, 60_000}, "shorter": {new(5), 5_000}, "longer": {new(600), 60_000}} {
		work := codeWork("true", nil)
		work.Node.TimeoutS = c.node
		call, err := scriptOf(work, time.Minute)
		require.NoError(t, err, name)

		_, timeout := command(t, call)
		require.Equal(t, c.want, timeout, name)
	}
}

func TestScriptOf_tooLong(t *testing.T) {
	t.Parallel()

	_, err := scriptOf(codeWork("true", map[string]any{"x": strings.Repeat("y", maxCommand)}), time.Minute)
	require.True(t, domain.HasCode(err, dagrun.CodeInvalidInputs), "%v", err)
	require.False(t, domain.AsError(err).Retryable())
}
