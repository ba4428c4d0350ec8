package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/schedule"
)

func TestTaskSpec_Values(t *testing.T) {
	t.Parallel()

	spec := schedule.TaskSpec{
		Title: "Nightly", Timezone: "Europe/Berlin", Setup: schedule.Setup{Inputs: map[string]string{"product": "{{task.title}} $1"}},
	}
	tick := schedule.Tick{Time: time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), Previous: time.Date(2026, 3, 28, 1, 30, 0, 0, time.UTC)}

	for prompt, want := range map[string]string{
		"at {{tick.time}}":                        "at 2026-03-29T03:00:00+02:00",
		"since {{ tick.previous }}":               "since 2026-03-28T02:30:00+01:00",
		"{{task.title}}: {{input.product}}":       "Nightly: {{task.title}} $1",
		"Helm {{ .Values.x }} and {{other.name}}": "Helm {{ .Values.x }} and {{other.name}}",
	} {
		spec.Prompt = prompt
		require.NoError(t, spec.CheckInputs())
		require.Equal(t, want, spec.Values(tick).Fill(prompt))
	}

	require.Equal(t, "since .", spec.Values(schedule.Tick{Time: tick.Time}).Fill("since {{tick.previous}}."))
}

func TestTaskSpec_CheckInputs(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		prompt string
		inputs map[string]string
	}{
		"unknown input": {"{{input.x}}", nil},
		"unknown tick":  {"{{tick.now}}", nil},
		"name":          {"", map[string]string{"a b": ""}},
		"long value":    {"", map[string]string{"a": string(make([]byte, schedule.MaxInputValue+1))}},
	} {
		spec := schedule.TaskSpec{Prompt: c.prompt, Setup: schedule.Setup{Inputs: c.inputs}}
		require.Error(t, spec.CheckInputs(), name)
	}
}
