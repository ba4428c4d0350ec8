package activities

import (
	"context"

	"everloop/activities/prompt"
	"everloop/activities/tools"
	"everloop/domain"
)

// prompt builds the prompt of a model call. It also returns the transcript that the prompt
// is made of.
func (a *Activities) prompt(
	ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn, model domain.Model, set *tools.Toolset,
) (domain.Prompt, domain.Transcript, error) {
	transcript, err := a.loopTranscript(ctx, domain.TranscriptQuery{
		ChatID: key.ChatID, BranchID: turn.BranchID, LoopID: key.LoopID, Before: turn.Sequence,
	}, turn.Newest)
	if err != nil {
		return domain.Prompt{}, transcript, err
	}

	if due := a.untranscribed(transcript.Turns); len(due) > 0 {
		return domain.Prompt{}, transcript, &untranscribedError{due}
	}

	if transcript.Recalled, err = a.recall(ctx, key, turn, transcript); err != nil {
		return domain.Prompt{}, transcript, err
	}

	pictures, err := prompt.Pictures(ctx, a.Images, transcript.Turns)
	if err != nil {
		return domain.Prompt{}, transcript, err
	}

	return prompt.Build(prompt.Input{
		Model: model, Chat: turn.Chat, Loop: turn.Loop, Profile: a.Profiles.Profile(turn.Session), Tools: set.Offered(),
		Transcript: transcript, Pictures: pictures,
	}), transcript, nil
}
