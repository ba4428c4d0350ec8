package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Compact carries one compaction that a client has asked for. It takes nothing
// from a chat that runs beside it: whatever is said meanwhile stays as it is.
func Compact(ctx workflow.Context, in contract.CompactInput) (domain.CompactionStatus, error) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("compaction %s of session %s", in.CompactionID, in.SessionID))
	out, err := compact(ctx, contract.CompactIn{SessionID: in.SessionID, CompactionID: in.CompactionID, Trigger: domain.CompactManual})
	return out.Status, err
}

// compact has a history summarised, piece by piece, and sees to it that the
// compaction ends in the records even when that work cannot report.
func compact(ctx workflow.Context, in contract.CompactIn) (contract.CompactOut, error) {
	for piece := 1; ; piece++ {
		out, err := contract.CompactContext.Run(ctx, in, fmt.Sprintf("Summary, piece %d", piece))
		switch {
		case err == nil && out.Status == domain.CompactionRunning:
			continue
		case err == nil || ctx.Err() != nil || temporal.IsCanceledError(err):
			return out, err
		}
		return contract.FailCompaction.Run(ctx, contract.FailCompactionIn{CompactIn: in, Reason: lostReason(err)}, "")
	}
}

// compactContext makes room for a model call and says how the call is made then.
// A compaction that failed does not keep it from being tried, unless its server
// has refused it already.
func (l *loop) compactContext(ctx workflow.Context, call contract.CallModelIn, trigger domain.CompactionTrigger) (contract.CallModelIn, bool, error) {
	out, err := compact(ctx, contract.CompactIn{
		SessionID: l.sessionID, ChatID: l.chatID, LoopID: l.id, TaskID: l.taskID, Step: l.step, Trigger: trigger,
	})
	switch {
	case err != nil:
		return call, false, err
	case out.Stopped:
		return call, true, nil
	case out.Exhausted:
		return call, false, durable.Final("context_overflow", "two compactions in a row did not bring the context below its threshold")
	case trigger == domain.CompactOverflow && out.Status == domain.CompactionFailed:
		return call, false, durable.Final("context_overflow", "the context is too long for the model, and could not be compacted: "+out.Reason)
	}
	call.Compacted = true
	call.Overflowed = call.Overflowed || trigger == domain.CompactOverflow
	return call, false, nil
}
