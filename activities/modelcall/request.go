package modelcall

import (
	"context"

	"everloop/activities/prompt"
	"everloop/activities/tools"
	"everloop/domain"
)

// promptInput reads what the prompt of a model call is made of.
func (c *Caller) promptInput(
	ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn, model domain.Model, set *tools.Toolset,
) (prompt.Input, error) {
	transcript, err := c.Cache.Transcript(ctx, domain.TranscriptQuery{
		ChatID: key.ChatID, BranchID: turn.BranchID, LoopID: key.LoopID, Before: turn.Sequence,
	}, turn.Newest)
	if err != nil {
		return prompt.Input{}, err
	}

	if due := c.untranscribed(transcript.Turns); len(due) > 0 {
		return prompt.Input{}, &untranscribedError{due}
	}

	if transcript.Recalled, err = c.recall(ctx, key, turn, transcript); err != nil {
		return prompt.Input{}, err
	}

	pictures, err := prompt.Pictures(ctx, c.Prompts.Images, transcript.Turns)
	if err != nil {
		return prompt.Input{}, err
	}

	offered := set.Offered()

	limits, err := c.sessionLimits(ctx, turn.Session.ID, model.ID, offered, transcript.Turns)
	if err != nil {
		return prompt.Input{}, err
	}

	in := prompt.Input{
		Model: model, SessionID: turn.Session.ID, Chat: turn.Chat, Loop: turn.Loop, Profile: c.Profile(turn.Session),
		Tools: acceptedTools(offered, limits), Transcript: transcript, Pictures: pictures,
	}

	return in.Without(refusedImages(limits)).LoadResultImages(ctx, c.Prompts.Images)
}

// sessionLimits returns what the model server does not take of a session with images or tool
// servers.
func (c *Caller) sessionLimits(
	ctx context.Context, sessionID domain.SessionID, model string, offered []domain.ToolSpec, turns []domain.TranscriptTurn,
) ([]domain.ModelLimit, error) {
	if len(toolServers(offered)) == 0 && !prompt.HasImages(turns) {
		return nil, nil
	}

	return c.Store.SessionLimits(ctx, sessionID, model)
}
