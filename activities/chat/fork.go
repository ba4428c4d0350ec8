package chat

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/domain"
)

// PauseFork reports whether a sub-agent must wait for an answer.
func (s *Steps) PauseFork(ctx context.Context, in contract.PauseForkIn) (contract.PauseForkOut, error) {
	return s.Store.PauseFork(ctx, in, s.ForkLimits.MaxConcurrent)
}

// EndFork ends a sub-agent: what it said last is the result of the call that owns
// it. One that could not complete leaves what it has found so far. Turns that a
// dead worker left open keep the text that clients have seen of them.
func (s *Steps) EndFork(ctx context.Context, in contract.EndForkIn) (contract.EndForkOut, error) {
	end := domain.ForkEnd{LoopID: in.LoopID}

	said, err := s.Store.ForkText(ctx, in.LoopID)
	if err != nil && domain.AsError(err).Kind == domain.NotFound {
		return contract.EndForkOut{}, nil // deleted with its session
	}

	if err != nil || said.Ended {
		if err == nil { // the step runs again: it returns the same runs to notify
			return s.Store.EndFork(ctx, end, s.ForkLimits.MaxConcurrent, nil)
		}

		return contract.EndForkOut{}, err
	}

	var restored map[domain.TurnID][]domain.Block
	if in.Reason != domain.FinishCompleted {
		if restored, err = s.restoreTurns(ctx, said.ChatID); err != nil {
			return contract.EndForkOut{}, err
		}
	}

	end.Status, end.Result, end.Reason = forkResult(in, said)
	call := &tools.Call{ID: in.LoopID, ChatID: said.ChatID, EntryID: said.EntryID, Session: tools.SessionView{
		ID: said.Session.ID, SandboxUID: said.Session.SandboxUID,
	}}
	end.Result = s.Tools.Shorten(ctx, call, end.Result)

	out, err := s.Store.EndFork(ctx, end, s.ForkLimits.MaxConcurrent, restored)
	if err == nil {
		s.Metrics.ToolCalled(agents.Agent, string(end.Status), time.Since(said.StartedAt))
	}

	return out, err
}

// forkResult puts into words how a sub-agent ended.
func forkResult(in contract.EndForkIn, said domain.ForkText) (status domain.ToolCallStatus, result, reason string) {
	switch in.Reason {
	case domain.FinishCompleted:
		return domain.CallDone, cmp.Or(said.Last, "(The sub-agent ended without a message.)"), ""
	case domain.FinishInterrupted:
		return domain.CallCancelled, soFar("Cancelled before it finished.", said.All), ""
	default:
		reason = cmp.Or(in.Message, string(in.Reason))
		return domain.CallError, soFar(fmt.Sprintf("The sub-agent did not complete its task: %s.", reason), said.All), reason
	}
}

func soFar(words, found string) string {
	if found == "" {
		return words
	}

	return words + " What it had found so far:\n\n" + found
}
