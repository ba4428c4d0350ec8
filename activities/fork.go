package activities

import (
	"context"
	"fmt"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/domain"
)

// watchStop watches for the stop of what a call belongs to: its chat, or the
// background task that outlives it.
func (a *Activities) watchStop(chatID domain.ChatID, taskID string) (stopped <-chan struct{}, cancel func()) {
	if taskID != "" {
		return a.Stops.WatchTaskStop(taskID)
	}

	return a.Stops.WatchStop(chatID)
}

// PauseFork says whether a sub-agent has to wait for an answer.
func (a *Activities) PauseFork(ctx context.Context, in contract.PauseForkIn) (contract.PauseForkOut, error) {
	return a.Forks.PauseFork(ctx, in, a.ForkLimits.MaxConcurrent)
}

// EndFork ends a sub-agent: what it said last is the result of the call that owns
// it. One that could not complete leaves what it has found so far. Turns that a
// dead worker left open keep the text that clients have seen of them.
func (a *Activities) EndFork(ctx context.Context, in contract.EndForkIn) (contract.EndForkOut, error) {
	end := domain.ForkEnd{LoopID: in.LoopID}

	said, err := a.Forks.ForkText(ctx, in.LoopID)
	if err != nil && domain.AsError(err).Kind == domain.NotFound {
		return contract.EndForkOut{}, nil // deleted with its session
	}

	if err != nil || said.Ended {
		if err == nil { // the step runs again: it returns the same runs to notify
			return a.Forks.EndFork(ctx, end, a.ForkLimits.MaxConcurrent, nil)
		}

		return contract.EndForkOut{}, err
	}

	var restored map[domain.TurnID][]domain.Block
	if in.Reason != domain.FinishCompleted {
		if restored, err = a.restoreTurns(ctx, said.ChatID); err != nil {
			return contract.EndForkOut{}, err
		}
	}

	end.Status, end.Result, end.Reason = forkResult(in, said)
	call := &tools.Call{ID: in.LoopID, ChatID: said.ChatID, EntryID: said.EntryID, Session: tools.SessionView{
		ID: said.Session.ID, SandboxUID: said.Session.SandboxUID,
	}}
	end.Result = a.Tools.Shorten(ctx, call, end.Result)

	out, err := a.Forks.EndFork(ctx, end, a.ForkLimits.MaxConcurrent, restored)
	if err == nil {
		a.Metrics.ToolCalled(agents.Agent, string(end.Status), time.Since(said.StartedAt))
	}

	return out, err
}

// forkResult puts into words how a sub-agent ended.
func forkResult(in contract.EndForkIn, said domain.ForkText) (status domain.ToolCallStatus, result, reason string) {
	switch in.Reason {
	case domain.FinishCompleted:
		return domain.CallDone, orElse(said.Last, "(The sub-agent ended without a message.)"), ""
	case domain.FinishInterrupted:
		return domain.CallCancelled, soFar("Cancelled before it finished.", said.All), ""
	default:
		reason = orElse(in.Message, string(in.Reason))
		return domain.CallError, soFar(fmt.Sprintf("The sub-agent did not complete its task: %s.", reason), said.All), reason
	}
}

func soFar(words, found string) string {
	if found == "" {
		return words
	}

	return words + " What it had found so far:\n\n" + found
}
