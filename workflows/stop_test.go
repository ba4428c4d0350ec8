package workflows_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/workflows"
)

// A tool reports the stop of its chat before the signal comes; a stop of another
// chat that comes in between does not take it back.
func TestChat_stopOfAnotherChat(t *testing.T) {
	t.Parallel()

	env := newEnvironment()
	env.RegisterWorkflow(workflows.Chat)

	modelCalls, finished := 0, domain.FinishReason("")

	contract.BeginChat.Handle(env, func(context.Context, contract.BeginChatIn) (contract.BeginChatOut, error) {
		return contract.BeginChatOut{ChatID: "chat", MaxSteps: 10}, nil
	})
	contract.CallModel.Handle(env, func(context.Context, contract.CallModelIn) (contract.CallModelOut, error) {
		modelCalls++
		if modelCalls > 1 {
			return contract.CallModelOut{Outcome: contract.OutcomeCompleted}, nil
		}

		return contract.CallModelOut{
			Outcome: contract.OutcomeContinue, Calls: []contract.ToolCall{{ID: "stopped", Name: "Bash"}, {ID: "slow", Name: "Bash"}},
		}, nil
	})
	contract.TryTool.Handle(env, func(_ context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
		return contract.RunToolOut{Stopped: in.ToolCallID == "stopped", Pending: in.ToolCallID == "slow"}, nil
	})
	contract.RunTool.Handle(env, func(context.Context, contract.RunToolIn) (contract.RunToolOut, error) {
		env.SignalWorkflow(contract.Stop.Name, contract.StopChat{ChatID: "an earlier chat"})
		return contract.RunToolOut{Status: domain.CallDone}, nil
	})
	contract.FinishChat.Handle(env, func(_ context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error) {
		finished = in.Reason
		return contract.FinishChatOut{}, nil
	})
	env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "session"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, domain.FinishInterrupted, finished)
	require.Equal(t, 1, modelCalls)
}

// The first model call comes after the init script of the session. A stop of the chat
// does not wait for it.
func TestChat_waitsForTheInitScript(t *testing.T) {
	t.Parallel()

	for name, stopped := range map[string]bool{"ended": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			env := newEnvironment()
			env.RegisterWorkflow(workflows.Chat)

			steps, finished := []string{}, domain.FinishReason("")

			contract.BeginChat.Handle(env, func(context.Context, contract.BeginChatIn) (contract.BeginChatOut, error) {
				return contract.BeginChatOut{ChatID: "chat", MaxSteps: 10, InitTask: "init"}, nil
			})
			contract.AwaitTask.Handle(env, func(ctx context.Context, in contract.AwaitTaskIn) (contract.RunTaskOut, error) {
				require.Equal(t, "init", in.TaskID)

				if stopped {
					env.SignalWorkflow(contract.Stop.Name, contract.StopChat{ChatID: "chat"})
					<-ctx.Done()

					return contract.RunTaskOut{}, ctx.Err()
				}

				steps = append(steps, "script")

				return contract.RunTaskOut{Status: domain.TaskFailed}, nil
			})
			contract.CallModel.Handle(env, func(context.Context, contract.CallModelIn) (contract.CallModelOut, error) {
				steps = append(steps, "model")
				return contract.CallModelOut{Outcome: contract.OutcomeCompleted}, nil
			})
			contract.FinishChat.Handle(env, func(_ context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error) {
				finished = in.Reason
				return contract.FinishChatOut{}, nil
			})
			env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "session"})
			require.NoError(t, env.GetWorkflowError())

			if stopped {
				require.Equal(t, domain.FinishInterrupted, finished)
				require.Empty(t, steps)

				return
			}

			require.Equal(t, domain.FinishCompleted, finished)
			require.Equal(t, []string{"script", "model"}, steps)
		})
	}
}

// The parent ignores what a sub-agent reports that has not received its last Resume:
// the number continues with the run.
func TestFork_continuedAsNewKeepsWhatItReceived(t *testing.T) {
	t.Parallel()

	env := newEnvironment()
	env.RegisterWorkflowWithOptions(workflows.Fork, workflow.RegisterOptions{Name: contract.WorkflowFork})
	contract.CallModel.Handle(env, func(context.Context, contract.CallModelIn) (contract.CallModelOut, error) {
		env.SignalWorkflow(contract.Resume.Name, contract.ResumeFork{Number: 3})
		env.SetContinueAsNewSuggested(true)

		return contract.CallModelOut{Outcome: contract.OutcomeContinue}, nil
	})
	env.ExecuteWorkflow(workflows.Fork, contract.ForkInput{
		SessionID: "session", ChatID: "chat", LoopID: "fork", Fork: contract.Fork{MaxSteps: 10, Seconds: 60},
	})
	continued, ok := errors.AsType[*workflow.ContinueAsNewError](env.GetWorkflowError())
	require.True(t, ok, env.GetWorkflowError())

	var next contract.ForkInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(continued.Input, &next))
	require.Equal(t, 3, next.Heard)
	require.Equal(t, 1, next.Step)
}
