package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/workflows"
)

func TestIssueRun(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		over    bool            // when it starts
		signals []time.Duration // that a chat has ended
		endsAt  int             // the look at the chat that finds the run over
	}{
		"over at once":                 {over: true},
		"waits for weeks":              {signals: []time.Duration{21 * 24 * time.Hour}, endsAt: 1},
		"another message, another end": {signals: []time.Duration{time.Minute, time.Hour}, endsAt: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			env := newEnvironment()
			looks := 0

			contract.BeginIssueRun.Handle(env, func(context.Context, contract.IssueRunInput) (contract.IssueRunOut, error) {
				return contract.IssueRunOut{Ended: tc.over}, nil
			})
			contract.EndIssueRun.Handle(env, func(context.Context, contract.IssueRunInput) (contract.IssueRunOut, error) {
				looks++
				return contract.IssueRunOut{Ended: looks == tc.endsAt}, nil
			})

			for _, after := range tc.signals {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.ChatEnded.Name, contract.EndedChat{ChatID: "c"}) }, after)
			}

			env.ExecuteWorkflow(workflows.IssueRun, contract.IssueRunInput{RunID: "r1"})
			require.True(t, env.IsWorkflowCompleted())
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, tc.endsAt, looks)
		})
	}
}
