package modelcall

import (
	"context"

	"everloop/activities/prompt"
	"everloop/activities/tools"
	"everloop/domain"
)

// overThreshold reports whether the model call would pass the threshold at which the
// history is summarised. It is asked before the call's turn is opened, so that the summary
// comes before that turn. What the server has reported of the loop's last prompt counts;
// only what came since is estimated.
func (c *Caller) overThreshold(ctx context.Context, key domain.TurnKey, w domain.ContextWeight, profile domain.Profile) (bool, error) {
	if !profile.Compaction.Auto {
		return false, nil
	}

	model, err := c.Models.Resolve(ctx, w.Chat.RequestedModel())
	if err != nil {
		return false, nil // the call itself will find that out
	}

	limit := profile.Compaction.Threshold(model.ContextWindow)

	size := c.sizes().Next(model.ID, w)
	if w.Reported == 0 {
		if size > limit {
			return true, nil
		}

		set := c.Plans.Tools.For(ctx, tools.Scope{
			Session: w.Session, Mode: w.Chat.Mode, Headless: w.Chat.Headless, LoopID: key.LoopID,
			Depth: w.Loop.Depth, Only: w.Loop.Only, Profile: profile,
		})
		overhead := c.sizes().Overhead(model.ID, w.Chat, w.Loop, profile, set.Offered())
		size += overhead.Total()
	}

	return size > limit, nil
}

func (c *Caller) sizes() prompt.Sizes { return prompt.Sizes{Tokens: c.Prompts.Tokens} }
