package modelcall

import (
	"context"
	"fmt"

	"everloop/activities/contract"
	"everloop/domain"
)

// beforeCall checks the limits and the size of a model call before its turn is opened.
// An outcome means that the call is not made now.
func (c *Caller) beforeCall(ctx context.Context, key domain.TurnKey) (out contract.CallModelOut, err error) {
	w, err := c.Transcripts.Weigh(ctx, key)
	if err != nil || !w.Running || w.Opened {
		return out, err
	}

	profile := c.Profile(w.Session)
	if out := limitReached(key, profile, used{w.UsedTokens, w.UsedCost, w.OwnerCalls}); out.Outcome != "" {
		return out, nil
	}

	over, err := c.overThreshold(ctx, key, w, profile)
	if over {
		return compactFirst(), err
	}

	return out, err
}

// compactFirst returns the result of a call whose prompt would pass the threshold.
func compactFirst() contract.CallModelOut {
	return contract.CallModelOut{Outcome: contract.OutcomeNeedsCompaction, Compact: domain.CompactAuto}
}

// used is what counts against the limits of a model call.
type used struct {
	tokens     int64 // of the session
	cost       domain.Cost
	ownerCalls int64
}

// limitReached returns the result that ends the loop before its next model call: by the
// number of its calls, by what the session has used of its budget, or by the calls of its
// owner on this day. Without an outcome no limit is reached.
func limitReached(key domain.TurnKey, profile domain.Profile, used used) (out contract.CallModelOut) {
	if key.LoopID == domain.RootLoop && key.Step > profile.MaxSteps {
		return contract.CallModelOut{
			Outcome: contract.OutcomeLimitReached, Reason: domain.FinishMaxSteps,
			Message: fmt.Sprintf("the chat made %d model calls, which is the limit", profile.MaxSteps),
		}
	}

	if why := profile.Exhausted(used.tokens, used.cost, used.ownerCalls); why != "" {
		return contract.CallModelOut{Outcome: contract.OutcomeLimitReached, Reason: domain.FinishBudgetExhausted, Message: why}
	}

	return out
}

// pendingCalls sends the run back to the turn before, for the calls of it that were
// held back and then allowed.
func (c *Caller) pendingCalls(ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn) (contract.CallModelOut, error) {
	calls, asked, err := c.Store.FinishedCalls(ctx, turn.EntryID)

	return contract.CallModelOut{
		EntryID: turn.EntryID, Outcome: contract.OutcomePendingCalls, Asked: asked,
		Calls: c.scheduled(ctx, turn.Session, c.Plans.Tools.For(ctx, c.scope(key, turn)), calls), Parallel: c.Plans.Parallel,
	}, err
}

// stuck describes a loop that makes the same calls over and over, with the same
// results; empty: it does not.
func (m *modelCall) stuck(calls []domain.RequestedCall) string {
	most := m.scope.Profile.StuckAfter
	if len(calls) == 0 || most <= 0 || domain.Repeats(m.transcript.Turns, calls) < most {
		return ""
	}

	return fmt.Sprintf("the same tool calls had the same results %d times in a row", most)
}
