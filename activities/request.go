package activities

import (
	"context"

	"everloop/activities/prompt"
	"everloop/activities/tools"
	"everloop/domain"
)

// promptInput reads what the prompt of a model call is made of.
func (a *Activities) promptInput(
	ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn, model domain.Model, set *tools.Toolset,
) (prompt.Input, error) {
	transcript, err := a.loopTranscript(ctx, domain.TranscriptQuery{
		ChatID: key.ChatID, BranchID: turn.BranchID, LoopID: key.LoopID, Before: turn.Sequence,
	}, turn.Newest)
	if err != nil {
		return prompt.Input{}, err
	}

	if due := a.untranscribed(transcript.Turns); len(due) > 0 {
		return prompt.Input{}, &untranscribedError{due}
	}

	if transcript.Recalled, err = a.recall(ctx, key, turn, transcript); err != nil {
		return prompt.Input{}, err
	}

	pictures, err := prompt.Pictures(ctx, a.Images, transcript.Turns)
	if err != nil {
		return prompt.Input{}, err
	}

	offered, err := a.acceptedTools(ctx, turn.Session.ID, model.ID, set.Offered())
	if err != nil {
		return prompt.Input{}, err
	}

	in := prompt.Input{
		Model: model, SessionID: turn.Session.ID, Chat: turn.Chat, Loop: turn.Loop, Profile: a.Profiles.Profile(turn.Session),
		Tools: offered, Transcript: transcript, Pictures: pictures,
	}
	if !prompt.HasImages(transcript.Turns) {
		return in, nil
	}

	refused, err := a.Turns.RefusedImages(ctx, turn.Session.ID, model.ID)
	if err != nil {
		return prompt.Input{}, err
	}

	return in.Without(refused).LoadResultImages(ctx, a.Images)
}
