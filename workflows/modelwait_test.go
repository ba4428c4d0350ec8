package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/workflows"
)

// chatEnvironment runs a chat whose model calls are answered by call.
func chatEnvironment(
	t *testing.T, call func(n int, in contract.CallModelIn) contract.CallModelOut,
) (*testsuite.TestWorkflowEnvironment, *contract.FinishChatIn) {
	t.Helper()

	env := newEnvironment()
	env.RegisterWorkflowWithOptions(workflows.Chat, workflow.RegisterOptions{Name: contract.WorkflowChat})

	calls, finished := 0, &contract.FinishChatIn{}

	contract.BeginChat.Handle(env, func(context.Context, contract.BeginChatIn) (contract.BeginChatOut, error) {
		return contract.BeginChatOut{ChatID: "c1", MaxSteps: 10}, nil
	})
	contract.CallModel.Handle(env, func(_ context.Context, in contract.CallModelIn) (contract.CallModelOut, error) {
		calls++

		require.Equal(t, 1, in.Step)

		return call(calls, in), nil
	})
	contract.CompactContext.Handle(env, func(context.Context, contract.CompactIn) (contract.CompactOut, error) {
		return contract.CompactOut{Status: domain.CompactionSkipped}, nil
	})
	contract.FinishChat.Handle(env, func(_ context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error) {
		*finished = in
		return contract.FinishChatOut{}, nil
	})

	return env, finished
}

func away(wait time.Duration) contract.CallModelOut {
	return contract.CallModelOut{
		Outcome: contract.OutcomeRetryLater, Wait: &contract.Wait{MS: wait.Milliseconds(), Summary: "Model unavailable"},
	}
}

func TestChat_waitsForItsModel(t *testing.T) {
	t.Parallel()
	env, finished := chatEnvironment(t, func(n int, _ contract.CallModelIn) contract.CallModelOut {
		if n <= 3 {
			return away(8 * time.Hour)
		}

		return contract.CallModelOut{Outcome: contract.OutcomeCompleted}
	})
	began := env.Now()
	env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "s1"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, domain.FinishCompleted, finished.Reason)
	require.GreaterOrEqual(t, env.Now().Sub(began), 24*time.Hour)
}

func TestChat_stopEndsTheWaitAtOnce(t *testing.T) {
	t.Parallel()
	env, finished := chatEnvironment(t, func(int, contract.CallModelIn) contract.CallModelOut { return away(24 * time.Hour) })

	const after = time.Hour
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.Stop.Name, contract.StopChat{ChatID: "c1"}) }, after)
	began := env.Now()
	env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "s1"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, domain.FinishInterrupted, finished.Reason)
	require.Less(t, env.Now().Sub(began), after+400*time.Millisecond, "no grace is given to a timer")
}

func TestChat_longHistoryContinuesAsNewBeforeTheWait(t *testing.T) {
	t.Parallel()

	var env *testsuite.TestWorkflowEnvironment

	env, finished := chatEnvironment(t, func(n int, _ contract.CallModelIn) contract.CallModelOut {
		if n == 2 {
			env.SetContinueAsNewSuggested(true)
		}

		return away(time.Minute)
	})
	env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "s1"})
	require.True(t, workflow.IsContinueAsNewError(env.GetWorkflowError()), "%v", env.GetWorkflowError())
	require.Empty(t, finished.Reason)
}

// The call after a refusal for length says so, by which a second refusal ends the
// chat.
func TestChat_overflowIsPassedOn(t *testing.T) {
	t.Parallel()
	env, finished := chatEnvironment(t, func(n int, in contract.CallModelIn) contract.CallModelOut {
		require.Equal(t, n > 1, in.Overflowed)

		if n == 1 {
			return contract.CallModelOut{Outcome: contract.OutcomeNeedsCompaction, Compact: domain.CompactOverflow}
		}

		return contract.CallModelOut{Outcome: contract.OutcomeCompleted}
	})
	env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "s1"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, domain.FinishCompleted, finished.Reason)
}
