package activities

import (
	"cmp"
	"context"
	"errors"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// This file holds the fast paths of a step: a model call starts the tool calls of its
// turn before its run asks for them, and ends the chat with its last turn. Each saves a
// round trip through Temporal and changes no result: whatever it leaves undone, or
// fails to do, the run does. Activities.NoFastPaths turns them off.

// startEarly closes a turn, claims those of its calls that this worker can run, and runs
// them while the result of the model call is on its way to the run. A call that is not
// claimed starts when the run asks for it.
//
// Each call is reserved on this worker before the turn is closed, so that no other
// activity here claims it by the same nonce. A worker that is being stopped starts none: it
// would kill them soon.
func (a *Activities) startEarly(
	ctx context.Context, closing domain.ClosingTurn, taskID string, closeTurn func(domain.ClosingTurn) ([]domain.LedgerCall, error),
) error {
	if a.NoFastPaths || durable.Stopping(ctx) {
		_, err := closeTurn(closing)
		return err
	}

	early := earlyCalls(closing.Calls, cmp.Or(a.ParallelTools, contract.DefaultParallelTools))

	ids, reserved := make([]string, len(early)), make(map[string]reservedCall, len(early))
	for i, n := range early {
		ids[i] = closing.Calls[n].ID
		// Watch before the flag is looked at, so that no stop falls in between.
		stopped, unwatch := a.watchStop(closing.ChatID, taskID)
		reserved[ids[i]] = a.host.reserve(context.WithoutCancel(ctx), ids[i], stopped, unwatch)
	}

	err := a.host.claims.Use(ids, func(nonces []string) error {
		for i, n := range early {
			closing.Calls[n].Claimant = nonces[i]
		}

		claimed, err := closeTurn(closing)
		for _, call := range claimed {
			a.run(reserved[call.ID], call, domain.CallClaimed)
			delete(reserved, call.ID)
		}

		return err
	})
	for id, r := range reserved {
		a.host.release(id, r)

		if err != nil && !errors.Is(err, domain.ErrFenced) {
			// The reply may be lost, and the call claimed for this process.
			go a.startLater(ctx, contract.RunToolIn{ChatID: closing.ChatID, ToolCallID: id, TaskID: taskID})
		}
	}

	return err
}

func (a *Activities) startLater(ctx context.Context, in contract.RunToolIn) {
	if _, _, err := a.begin(ctx, in); err != nil {
		a.Logger.Debug("failed to start a tool call early", "chat_id", in.ChatID, "tool_call_id", in.ToolCallID, "error", err)
	}
}

// earlyCalls returns the indexes of the calls that may start at once: those that are
// neither settled nor held back, and that are no sub-agents. There are at most as many
// as the run would run at once.
func earlyCalls(calls []domain.PlannedCall, most int) (early []int) {
	for i, call := range calls {
		if call.Settled == nil && call.Questions == nil && call.Fork == nil && !call.Guarded && len(early) < most {
			early = append(early, i)
		}
	}

	return early
}

// endEarly ends the chat with its last turn. A message that was steered in meanwhile
// makes the loop go on. When it fails, the run ends the chat: only the first of the two
// has an effect.
func (m *modelCall) endEarly(ctx context.Context, out contract.CallModelOut, reason domain.FinishReason) contract.CallModelOut {
	if m.NoFastPaths || m.key.LoopID != domain.RootLoop {
		return out
	}

	finished, err := m.FinishChat(ctx, contract.FinishChatIn{ChatID: m.key.ChatID, Reason: reason})
	switch {
	case err != nil:
		m.Logger.Warn("failed to end a chat with its last turn; its run will", "chat_id", m.key.ChatID, "error", err)
	case !finished.More:
		out.Outcome, out.Reason, out.Next = contract.OutcomeChatEnded, reason, finished.Next
	case out.Outcome == contract.OutcomeCompleted:
		out.Outcome = contract.OutcomeContinue
	}

	return out
}
