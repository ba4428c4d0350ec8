package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/workflows"
)

func TestScheduledRun_checksItsOutcome(t *testing.T) {
	t.Parallel()

	for name, maxConcurrent := range map[string]bool{"after its chat": false, "when it is resumed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			env := newEnvironment()
			checks := 0

			contract.BeginScheduledRun.Handle(
				env,
				func(context.Context, contract.BeginScheduledRunInput) (contract.ScheduledRunOut, error) {
					return contract.ScheduledRunOut{Check: maxConcurrent}, nil
				},
			)
			contract.EndScheduledRun.Handle(env, func(context.Context, contract.ScheduledRunInput) (contract.ScheduledRunOut, error) {
				return contract.ScheduledRunOut{Check: true}, nil
			})

			check := func(_ context.Context, in contract.ScheduledRunInput) (contract.ScheduledRunOut, error) {
				require.Equal(t, "r1", in.RunID)

				checks++

				return contract.ScheduledRunOut{Ended: true}, nil
			}
			contract.CheckScheduledRun.Handle(env, check)
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.ChatEnded.Name, contract.EndedChat{}) }, time.Minute)
			env.ExecuteWorkflow(workflows.ScheduledRun, contract.ScheduledRunInput{RunID: "r1"})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, 1, checks)
		})
	}
}

func TestScheduledRun(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		over    bool            // when it starts
		signals []time.Duration // that a chat has ended
		endsAt  int             // the look at the chat that finds it ended
	}{
		"over at once":               {over: true},
		"waits for weeks":            {signals: []time.Duration{21 * 24 * time.Hour}, endsAt: 1},
		"two signals are one look":   {signals: []time.Duration{0, 0}, endsAt: 1},
		"a signal too early is none": {signals: []time.Duration{time.Minute, time.Hour}, endsAt: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			env := newEnvironment()
			looks := 0

			contract.BeginScheduledRun.Handle(
				env,
				func(context.Context, contract.BeginScheduledRunInput) (contract.ScheduledRunOut, error) {
					return contract.ScheduledRunOut{Ended: tc.over}, nil
				},
			)
			contract.EndScheduledRun.Handle(env, func(context.Context, contract.ScheduledRunInput) (contract.ScheduledRunOut, error) {
				looks++
				return contract.ScheduledRunOut{Ended: looks == tc.endsAt}, nil
			})

			for _, after := range tc.signals {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.ChatEnded.Name, contract.EndedChat{ChatID: "c"}) }, after)
			}

			env.ExecuteWorkflow(workflows.ScheduledRun, contract.ScheduledRunInput{RunID: "r1"})
			require.True(t, env.IsWorkflowCompleted())
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, tc.endsAt, looks)
		})
	}
}
