package modelcall

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"everloop/activities/contract"
	"everloop/domain"
)

// untranscribedError reports that a prompt cannot be built yet: user turns have recordings
// whose transcription is due.
type untranscribedError struct{ turns []domain.TurnID }

func (e *untranscribedError) Error() string {
	return fmt.Sprintf("%d messages have recordings that are not transcribed", len(e.turns))
}

// untranscribed lists the turns whose recordings must be transcribed first. Without a
// speech model there are none: the model reads that there was a recording.
func (c *Caller) untranscribed(turns []domain.TranscriptTurn) (due []domain.TurnID) {
	if !c.Prompts.Speech {
		return nil
	}

	for _, t := range turns {
		if slices.ContainsFunc(t.Parts, domain.ContentPart.Untranscribed) && len(due) < contract.MaxRecordingTurns {
			due = append(due, t.ID)
		}
	}

	return due
}

// awaitTranscription leaves the turn, which has shown nothing, to the same call after the
// transcription.
func (m *modelCall) awaitTranscription(ctx context.Context, turns []domain.TurnID) (contract.CallModelOut, error) {
	err := m.Store.HoldTurn(ctx, m.key, m.turn.EntryID, m.turn.Attempt)
	if errors.Is(err, domain.ErrFenced) {
		return m.fenced()
	}

	return contract.CallModelOut{
		EntryID: m.turn.EntryID, Outcome: contract.OutcomeNeedsTranscription, Recordings: turns,
	}, err
}
