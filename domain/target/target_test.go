package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/target"
)

func TestTarget_Check(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		of    target.Target
		field string // that is rejected; empty: none
	}{
		"prompt":                   {target.Target{Kind: target.Prompt, Prompt: "go", Inputs: map[string]any{"a": "b"}}, ""},
		"agent":                    {target.Target{Kind: target.Agent, AgentID: "a"}, ""},
		"dag":                      {target.Target{Kind: target.DAG, SolutionID: "s", Version: 2, Inputs: map[string]any{"n": 1}}, ""},
		"issue":                    {target.Target{Kind: target.Issue, WorkspaceID: "w", Title: "t"}, ""},
		"no kind":                  {target.Target{}, "kind"},
		"agent without an id":      {target.Target{Kind: target.Agent}, "agent_id"},
		"dag without a solution":   {target.Target{Kind: target.DAG}, "solution_id"},
		"issue without workspace":  {target.Target{Kind: target.Issue}, "workspace_id"},
		"another kind's field":     {target.Target{Kind: target.Prompt, SolutionID: "s"}, "solution_id"},
		"title of a DAG run":       {target.Target{Kind: target.DAG, SolutionID: "s", Title: "t"}, "title"},
		"number for a message":     {target.Target{Kind: target.Prompt, Inputs: map[string]any{"n": 1}}, "inputs.n"},
		"type without an assignee": {target.Target{Kind: target.Issue, WorkspaceID: "w", AssigneeType: "agent"}, "assignee_id"},
	} {
		err := c.of.Check("body.target")
		if c.field == "" {
			require.NoError(t, err, name)
			continue
		}

		require.Equal(t, "body.target."+c.field, domain.AsError(err).Fields[0].Location, name)
	}
}

func TestTarget_Filled(t *testing.T) {
	t.Parallel()

	of := target.Target{
		Kind: target.DAG, Title: "{{ tick.time }}", Labels: []string{"{{input.x}}"},
		Inputs: map[string]any{"{{input.x}}": 1, "list": []any{"{{input.x}}", map[string]any{"deep": "a {{input.x}} {{nodes.a.output}}"}}},
	}
	filled := of.Filled(target.Values{"tick.time": "now", "input.x": "{{tick.time}}"})
	require.Equal(t, target.Target{
		Kind: target.DAG, Title: "now", Labels: []string{"{{tick.time}}"},
		Inputs: map[string]any{
			"{{input.x}}": 1, "list": []any{"{{tick.time}}", map[string]any{"deep": "a {{tick.time}} {{nodes.a.output}}"}},
		},
	}, filled)
	require.Equal(t, "{{input.x}}", of.Labels[0], "the target itself is unchanged")
}
