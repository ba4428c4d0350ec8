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

// fakeActivities answers what a loop asks for. The first model call is answered by
// step, all others complete the loop.
type fakeActivities struct {
	env  *testsuite.TestWorkflowEnvironment
	step contract.CallModelOut

	steps    []int    // of the model calls, in their order
	tools    []string // calls that were run
	compacts []domain.CompactionTrigger
	heard    []string // turns whose recordings were transcribed
	parked   int
	finished *contract.FinishChatIn // nil: the run did not end the chat
	ended    *contract.EndForkIn    // nil: the run did not end the sub-agent
}

func newFakeActivities(step contract.CallModelOut) *fakeActivities {
	f := &fakeActivities{env: newEnvironment(), step: step}
	f.env.RegisterWorkflowWithOptions(workflows.Chat, workflow.RegisterOptions{Name: contract.WorkflowChat})
	f.env.RegisterWorkflowWithOptions(workflows.Fork, workflow.RegisterOptions{Name: contract.WorkflowFork})

	contract.BeginChat.Handle(f.env, func(context.Context, contract.BeginChatIn) (contract.BeginChatOut, error) {
		return contract.BeginChatOut{ChatID: "chat", MaxSteps: 10}, nil
	})
	contract.CallModel.Handle(f.env, func(_ context.Context, in contract.CallModelIn) (contract.CallModelOut, error) {
		f.steps = append(f.steps, in.Step)
		if len(f.steps) == 1 {
			return f.step, nil
		}

		return contract.CallModelOut{Outcome: contract.OutcomeCompleted}, nil
	})
	contract.TryTool.Handle(f.env, func(_ context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
		f.tools = append(f.tools, in.ToolCallID)
		return contract.RunToolOut{Status: domain.CallDone}, nil
	})
	contract.CompactContext.Handle(f.env, func(_ context.Context, in contract.CompactIn) (contract.CompactOut, error) {
		f.compacts = append(f.compacts, in.Trigger)
		return contract.CompactOut{Status: domain.CompactionSkipped}, nil
	})
	contract.Transcribe.Handle(f.env, func(_ context.Context, in contract.TranscribeIn) (contract.TranscribeOut, error) {
		f.heard = append(f.heard, string(in.EntryID))
		return contract.TranscribeOut{Stopped: in.EntryID == "stopped"}, nil
	})
	contract.ParkChat.Handle(f.env, func(context.Context, contract.ParkChatIn) (contract.ParkChatOut, error) {
		f.parked++
		return contract.ParkChatOut{State: contract.Answered}, nil
	})
	contract.FinishChat.Handle(f.env, func(_ context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error) {
		f.finished = &in
		return contract.FinishChatOut{}, nil
	})
	contract.EndFork.Handle(f.env, func(_ context.Context, in contract.EndForkIn) (contract.EndForkOut, error) {
		f.ended = &in
		return contract.EndForkOut{}, nil
	})

	return f
}

// outcomes has one case at least for each outcome of a step.
var outcomes = map[string]struct {
	step contract.CallModelOut

	steps    []int // of the model calls; a call that is made again keeps its number
	tools    []string
	compacts []domain.CompactionTrigger
	heard    []string
	parked   int
	reason   domain.FinishReason // the run ends the chat for it; empty: it does not
	code     string
	message  string
	next     bool // the next chat is taken
}{
	"completed": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeCompleted},
		steps: []int{1}, reason: domain.FinishCompleted,
	},
	"continue with calls": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeContinue, Calls: []contract.ToolCall{{ID: "one", Name: "Bash"}}},
		steps: []int{1, 2}, tools: []string{"one"}, reason: domain.FinishCompleted,
	},
	"continue without calls": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeContinue},
		steps: []int{1, 2}, reason: domain.FinishCompleted,
	},
	"continue with a question": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeContinue, Asked: 1},
		steps: []int{1, 2}, parked: 1, reason: domain.FinishCompleted,
	},
	"pending calls": {
		step:  contract.CallModelOut{Outcome: contract.OutcomePendingCalls, Calls: []contract.ToolCall{{ID: "held", Name: "Bash"}}},
		steps: []int{1, 1}, tools: []string{"held"}, reason: domain.FinishCompleted,
	},
	"retry later": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeRetryLater, Wait: &contract.Wait{MS: time.Hour.Milliseconds()}},
		steps: []int{1, 1}, reason: domain.FinishCompleted,
	},
	"needs compaction": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeNeedsCompaction, Compact: domain.CompactAuto},
		steps: []int{1, 1}, compacts: []domain.CompactionTrigger{domain.CompactAuto}, reason: domain.FinishCompleted,
	},
	"needs transcription": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeNeedsTranscription, Recordings: []domain.TurnID{"a", "b"}},
		steps: []int{1, 1}, heard: []string{"a", "b"}, reason: domain.FinishCompleted,
	},
	"stopped during the transcription": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeNeedsTranscription, Recordings: []domain.TurnID{"stopped", "b"}},
		steps: []int{1}, heard: []string{"stopped"}, reason: domain.FinishInterrupted,
	},
	"stopped": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeStopped},
		steps: []int{1}, reason: domain.FinishInterrupted,
	},
	"limit reached": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeLimitReached, Reason: domain.FinishBudgetExhausted, Message: "spent"},
		steps: []int{1}, reason: domain.FinishBudgetExhausted, code: string(domain.FinishBudgetExhausted), message: "spent",
	},
	"schema mismatch": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeSchemaMismatch, Message: "it lacks n"},
		steps: []int{1}, reason: domain.FinishSchemaMismatch, code: "schema_mismatch", message: "it lacks n",
	},
	"schema mismatch of a worker that did not say why": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeSchemaMismatch},
		steps: []int{1}, reason: domain.FinishSchemaMismatch, code: "schema_mismatch", message: "no answer followed the output_schema",
	},
	"chat ended": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeChatEnded, Reason: domain.FinishCompleted},
		steps: []int{1},
	},
	"chat ended and another one is queued": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeChatEnded, Reason: domain.FinishInterrupted, Next: true},
		steps: []int{1}, next: true,
	},
	"queued, which a chat cannot be": {
		step:  contract.CallModelOut{Outcome: contract.OutcomeQueued},
		steps: []int{1}, reason: domain.FinishFailed, code: domain.CodeInternal, message: "only sub-agents wait for a slot",
	},
}

func TestChat_outcomes(t *testing.T) {
	t.Parallel()

	for name, tc := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			f := newFakeActivities(tc.step)
			f.env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "session"})

			if tc.next {
				require.True(t, workflow.IsContinueAsNewError(f.env.GetWorkflowError()), "%v", f.env.GetWorkflowError())
			} else {
				require.NoError(t, f.env.GetWorkflowError())
			}

			require.Equal(t, tc.steps, f.steps)
			require.Equal(t, tc.tools, f.tools)
			require.Equal(t, tc.compacts, f.compacts)
			require.Equal(t, tc.heard, f.heard)
			require.Equal(t, tc.parked, f.parked)

			if tc.reason == "" {
				require.Nil(t, f.finished)
				return
			}

			require.Equal(t, &contract.FinishChatIn{ChatID: "chat", Reason: tc.reason, Code: tc.code, Message: tc.message}, f.finished)
		})
	}
}

// A sub-agent runs the same loop: its outcomes end itself, not the chat.
func TestFork_outcomes(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		step   contract.CallModelOut
		steps  []int
		reason domain.FinishReason
	}{
		"completed": {contract.CallModelOut{Outcome: contract.OutcomeCompleted}, []int{1}, domain.FinishCompleted},
		"queued":    {contract.CallModelOut{Outcome: contract.OutcomeQueued}, []int{1, 1}, domain.FinishCompleted},
		"stopped":   {contract.CallModelOut{Outcome: contract.OutcomeStopped}, []int{1}, domain.FinishInterrupted},
		"continue":  {contract.CallModelOut{Outcome: contract.OutcomeContinue}, []int{1, 2}, domain.FinishCompleted},
		"limit reached": {
			contract.CallModelOut{Outcome: contract.OutcomeLimitReached, Reason: domain.FinishBudgetExhausted},
			[]int{1},
			domain.FinishBudgetExhausted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			f := newFakeActivities(tc.step)
			f.env.ExecuteWorkflow(workflows.Fork, contract.ForkInput{
				SessionID: "session", ChatID: "chat", LoopID: "fork", Fork: contract.Fork{MaxSteps: 10, Seconds: 60},
			})
			require.NoError(t, f.env.GetWorkflowError())
			require.Equal(t, tc.steps, f.steps)
			require.Nil(t, f.finished)
			require.Equal(t, tc.reason, f.ended.Reason)
		})
	}
}

// An outcome of a newer version fails the workflow task, which is retried, and not the
// chat.
func TestChat_unknownOutcome(t *testing.T) {
	t.Parallel()

	f := newFakeActivities(contract.CallModelOut{Outcome: "of_a_newer_version"})
	f.env.ExecuteWorkflow(workflows.Chat, contract.ChatInput{SessionID: "session"})
	require.ErrorContains(t, f.env.GetWorkflowError(), `outcome "of_a_newer_version" is not known to this version`)
	require.Nil(t, f.finished)
}

// The table has every outcome that the contract declares.
func TestChat_outcomesAreComplete(t *testing.T) {
	t.Parallel()

	var covered []contract.Outcome
	for _, tc := range outcomes {
		covered = append(covered, tc.step.Outcome)
	}

	require.Subset(t, covered, contract.Outcomes())
}
