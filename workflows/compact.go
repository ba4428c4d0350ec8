package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Compact carries one compaction that a client has asked for. A chat may run next to
// it: turns that are added in the meantime are not summarised.
func Compact(ctx workflow.Context, in contract.CompactInput) (domain.CompactionStatus, error) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("compaction %s of session %s", in.CompactionID, in.SessionID))

	out, err := compact(
		ctx, contract.CompactIn{SessionID: in.SessionID, CompactionID: in.CompactionID, Trigger: domain.CompactManual}, sleepUntilRetry,
	)
	if errors.Is(err, errLongHistory) {
		return "", continueAsNew(ctx, contract.WorkflowCompact, in)
	}

	return out.Status, err
}

// compact runs the summarisation activity, piece by piece, until it is done, and records
// a failure if the activity is lost. Await waits between the tries of a model call.
func compact(
	ctx workflow.Context, in contract.CompactIn, await func(workflow.Context, contract.Wait) (stopped bool, err error),
) (contract.CompactOut, error) {
	for piece := 1; ; piece++ {
		out, err := contract.CompactContext.Run(ctx, in, fmt.Sprintf("Summary, piece %d", piece))
		switch {
		case err == nil && out.Wait != nil:
			if stopped, err := await(ctx, *out.Wait); err != nil || stopped {
				return contract.CompactOut{Stopped: stopped}, err
			}

			piece--

			continue
		case err == nil && out.Status == domain.CompactionRunning:
			continue
		case err == nil || ctx.Err() != nil || temporal.IsCanceledError(err):
			return out, err
		}

		return contract.FailCompaction.Run(ctx, contract.FailCompactionIn{CompactIn: in, Reason: lostReason(err)}, "")
	}
}

// compactContext compacts the history before a model call and returns how the call is
// made then. After a compaction that failed the call is made all the same, unless its
// server has rejected it already.
func (l *loop) compactContext(
	ctx workflow.Context, call contract.CallModelIn, trigger domain.CompactionTrigger,
) (made contract.CallModelIn, stopped bool, err error) {
	out, err := compact(ctx, contract.CompactIn{
		SessionID: l.sessionID, ChatID: l.chatID, LoopID: l.id, TaskID: l.taskID, Step: l.step, Trigger: trigger,
	}, l.awaitModel)
	switch {
	case err != nil:
		return call, false, err
	case out.Stopped:
		return call, true, nil
	case out.Exhausted:
		return call, false, durable.Final(
			domain.CodeContextOverflow, "two compactions in a row did not bring the context below its threshold",
		)
	case trigger == domain.CompactOverflow && out.Code != "":
		return call, false, durable.Final(out.Code, out.Reason)
	case trigger == domain.CompactOverflow && out.Status == domain.CompactionFailed:
		return call, false, durable.Final(
			domain.CodeContextOverflow, "the context is too long for the model, and could not be compacted: "+out.Reason,
		)
	}

	call.Compacted = true
	call.Overflowed = call.Overflowed || trigger == domain.CompactOverflow

	return call, false, nil
}
