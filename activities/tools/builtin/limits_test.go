package builtin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
)

// The limits of an operator are in the descriptions for the model, and are enforced.
func TestLimits_ofBash(t *testing.T) {
	t.Parallel()

	registry, err := New(tools.Deps{Limits: tools.Limits{BashTimeout: 5 * time.Second, BashMost: 8 * time.Second, Result: 2000}})
	require.NoError(t, err)

	bash, _ := registry.For(t.Context(), tools.Scope{}).Lookup("Bash")
	require.Contains(t, bash.Spec.Description, "5000 when you leave it out, 8000 at most")
	require.Contains(t, bash.Spec.Description, "Output over 2000 characters")
	require.NotRegexp(t, `\{(timeout|most|characters)\}`, bash.Spec.Description)

	var schema struct {
		Properties map[string]struct {
			Maximum     int    `json:"maximum"`
			Description string `json:"description"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(bash.Spec.Parameters, &schema))
	require.Equal(t, 8000, schema.Properties["timeout"].Maximum)
	require.Contains(t, schema.Properties["timeout"].Description, "5000 when left out")

	standard, err := New(tools.Deps{})
	require.NoError(t, err)
	bash, _ = standard.For(t.Context(), tools.Scope{}).Lookup("Bash")
	require.Contains(t, bash.Spec.Description, "120000 when you leave it out, 600000 at most")
}

func TestLimits_ofResults(t *testing.T) {
	t.Parallel()

	const most = 2000

	b := newBench(t, toolstest.RealSandbox(t), tools.Limits{Result: most, BashTimeout: time.Minute, BashMost: time.Minute})
	b.File("long.txt", strings.Repeat("a line of some length\n", 500))

	for n := range 100 {
		b.File(fmt.Sprintf("files/with-a-rather-long-name-%d.txt", n), "x")
	}

	for name, arguments := range map[string]toolstest.Args{
		"Bash": {"command": "cat long.txt"}, "Read": {"file_path": "long.txt"}, "Glob": {"pattern": "**/*.txt"},
	} {
		result := b.Do(name, arguments)
		require.False(t, result.IsError, result.Output)
		require.LessOrEqual(t, tools.Length(result.Output), most, name)
		require.Greater(t, tools.Length(result.Output), most/2, name)
	}

	refused := b.Do("Bash", toolstest.Args{"command": "true", "timeout": 60_001})
	require.True(t, refused.IsError, "longer than an operator allows")
}
