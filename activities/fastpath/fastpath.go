// Package fastpath has the shortcuts of a step. Each saves a round through Temporal and
// changes no result: what it leaves undone, or fails to do, the run does. To remove the
// package, have a model call close its turn by CloseAndClaim and its run end the chat and
// call tool.run alone.
package fastpath

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"everloop/activities/chat"
	"everloop/activities/contract"
	"everloop/activities/toolrun"
	"everloop/domain"
	"everloop/internal/durable"
)

// Paths are the shortcuts.
type Paths struct {
	Off      bool // tests run both ways
	Tools    *toolrun.Runner
	Chat     *chat.Steps
	Parallel int // tool calls of one turn that run concurrently; 0: contract.DefaultParallelTools
	Logger   *slog.Logger
}

// tryFor is how long TryTool waits for a call. One that takes longer is shown to operators as
// its own activity.
const tryFor = 400 * time.Millisecond

// TryTool starts one call of the ledger and waits a moment for its end, without an activity in
// the history. A call that still runs then is Pending and continues: RunTool waits for it.
//
// RunTool is asked for stopped calls too. TryTool runs without the consent of Temporal: on a
// worker that stood still and lost its run, the ledger refuses calls of a chat that another
// worker has continued, and the run here must not end that chat.
func (p *Paths) TryTool(ctx context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
	pending := contract.RunToolOut{Pending: true}
	if p.Off {
		return pending, nil
	}

	call := p.Tools.Start(ctx, in)
	select {
	case <-call.Decided():
	case <-ctx.Done():
		return contract.RunToolOut{}, ctx.Err()
	}

	moment := time.NewTimer(tryFor)
	defer moment.Stop()

	select {
	case <-call.Over():
		out, err := call.Result()
		return contract.RunToolOut{Status: out.Status, Pending: out.Pending || out.Stopped}, err
	case <-moment.C:
		return pending, nil
	case <-ctx.Done():
		return contract.RunToolOut{}, ctx.Err()
	}
}

// CloseTurn closes a turn by closeTurn, which also claims those of its calls that this worker
// can run, and runs them while the result of the model call is on its way to the run. Calls
// that closeTurn does not claim start when the run asks for them. A worker that is stopping
// starts none: it would kill them soon.
func (p *Paths) CloseTurn(
	ctx context.Context, closing domain.ClosingTurn, taskID string, closeTurn func(domain.ClosingTurn) ([]domain.LedgerCall, error),
) error {
	if p.Off || durable.Stopping(ctx) {
		_, err := closeTurn(closing)
		return err
	}

	early := earlyCalls(closing.Calls, cmp.Or(p.Parallel, contract.DefaultParallelTools))

	ins := make([]contract.RunToolIn, len(early))
	for i, n := range early {
		ins[i] = contract.RunToolIn{ChatID: closing.ChatID, ToolCallID: closing.Calls[n].ID, TaskID: taskID}
	}

	return p.Tools.StartClaimed(ctx, ins, func(nonces []string) ([]domain.LedgerCall, error) {
		for i, n := range early {
			closing.Calls[n].Claimant = nonces[i]
		}

		return closeTurn(closing)
	})
}

// earlyCalls returns the indexes of the calls that may start at once: those that are
// neither settled nor held back, and that are no sub-agents. There are at most as many
// as the run would run concurrently.
func earlyCalls(calls []domain.PlannedCall, maxConcurrent int) (early []int) {
	for i, call := range calls {
		if call.Settled == nil && call.Questions == nil && call.Fork == nil && !call.Guarded && len(early) < maxConcurrent {
			early = append(early, i)
		}
	}

	return early
}

// EndChat ends the chat with the last turn of its main loop. A message that was steered in
// between makes the loop continue. When EndChat fails, the run ends the chat: only the first
// end has an effect.
func (p *Paths) EndChat(
	ctx context.Context, key domain.TurnKey, out contract.CallModelOut, reason domain.FinishReason,
) contract.CallModelOut {
	if p.Off || key.LoopID != domain.RootLoop {
		return out
	}

	finished, err := p.Chat.FinishChat(ctx, contract.FinishChatIn{ChatID: key.ChatID, Reason: reason})
	switch {
	case err != nil:
		p.Logger.Warn("failed to end a chat with its last turn; its run will", "chat_id", key.ChatID, "error", err)
	case !finished.More:
		out.Outcome, out.Reason, out.Next = contract.OutcomeChatEnded, reason, finished.Next
	case out.Outcome == contract.OutcomeCompleted:
		out.Outcome = contract.OutcomeContinue
	}

	return out
}
