package modelcall

import (
	"context"

	"everloop/activities/contract"
	"everloop/activities/transcripts"
	"everloop/domain"
)

// admission decides, under the lock that a turn is opened with, whether its model
// call is made: within its limits, and small enough as far as this process remembers
// the history.
type admission struct {
	*Caller
	key  domain.TurnKey
	kept transcripts.Loop

	out    contract.CallModelOut // of a call that is not made now
	unsure bool                  // the size of the prompt must be read
}

// openAdmitted checks the limits and the size of a model call, and opens its turn. The
// state is TurnRefused when the call is not made now: out is its result then.
func (c *Caller) openAdmitted(
	ctx context.Context, key domain.TurnKey, model string, compacted bool,
) (foundTurn, contract.CallModelOut, error) {
	kept, known := c.Cache.Loop(key.ChatID, key.LoopID)
	if known && !compacted {
		d := &admission{Caller: c, key: key, kept: kept}

		turn, err := c.openTurn(ctx, key, model, d.admit)
		if err != nil || !d.unsure {
			return turn, d.out, err
		}
	}

	if !compacted {
		out, err := c.beforeCall(ctx, key)
		if out.Outcome != "" || err != nil {
			return foundTurn{state: domain.TurnRefused}, out, err
		}
	}

	turn, err := c.openTurn(ctx, key, model, nil)

	return turn, contract.CallModelOut{}, err
}

func (d *admission) admit(next domain.NextTurn) bool {
	d.out, d.unsure = contract.CallModelOut{}, false // of a transaction that was run again

	profile := d.Profile(next.Session)
	if d.out = limitReached(d.key, profile, used{next.UsedTokens, next.UsedCost, next.OwnerCalls}); d.out.Outcome != "" {
		return false
	}

	if !profile.Compaction.Auto {
		return true
	}

	w, known := d.kept.Weight()
	if !known || !d.kept.Current(next.BranchID, next.Newest) || d.kept.Model.ID == "" || d.kept.Requested != next.Chat.RequestedModel() {
		d.unsure = true
		return false
	}

	w.Bytes += next.Waiting
	if d.sizes().Next(d.kept.Model.ID, w) > profile.Compaction.Threshold(d.kept.Model.ContextWindow) {
		d.out = compactFirst()
		return false
	}

	return true
}
