package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/speech"
	"everloop/internal/durable"
)

// untranscribedError says that a prompt cannot be built yet: user turns have recordings
// whose transcription is due.
type untranscribedError struct{ turns []domain.TurnID }

func (e *untranscribedError) Error() string {
	return fmt.Sprintf("%d messages have recordings that are not transcribed", len(e.turns))
}

// untranscribed lists the turns whose recordings are to be transcribed first. Without a
// speech model there are none: the model reads that there was a recording.
func (a *Activities) untranscribed(turns []domain.TranscriptTurn) (due []domain.TurnID) {
	if a.Speech == nil {
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
	err := m.Turns.HoldTurn(ctx, m.key, m.turn.EntryID, m.turn.Attempt)
	if errors.Is(err, domain.ErrFenced) {
		return m.fenced()
	}

	return contract.CallModelOut{
		EntryID: m.turn.EntryID, Outcome: contract.OutcomeNeedsTranscription, Recordings: turns,
	}, err
}

// Transcribe has the recordings of a user turn transcribed, each of them in a step of its
// own: the next attempt after a lost worker goes on with those that are not recorded.
func (a *Activities) Transcribe(ctx context.Context, in contract.TranscribeIn) (contract.TranscribeOut, error) {
	return a.shared.speech.Run(ctx, in, durable.AbandonAfter, func(ctx context.Context) (contract.TranscribeOut, error) {
		return a.transcribe(ctx, in)
	})
}

func (a *Activities) transcribe(ctx context.Context, in contract.TranscribeIn) (contract.TranscribeOut, error) {
	if a.Speech == nil {
		return contract.TranscribeOut{}, durable.Final(speech.CodeOff, "no model for speech is configured: set ASR_MODEL")
	}

	// Watch before the flag is looked at, so that no stop falls in between.
	stopped, unwatch := a.watchStop(in.ChatID, in.TaskID)
	defer unwatch()

	working, abort := durable.UntilInterrupted(ctx, stopped, a.DrainTime)
	defer abort(nil)

	err := a.transcribeTurn(working, in)
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}

	switch {
	case errors.Is(err, durable.ErrStopped), errors.Is(err, domain.ErrFenced):
		return contract.TranscribeOut{Stopped: true}, nil
	case errors.Is(err, durable.ErrDraining):
		return contract.TranscribeOut{}, durable.Retry(domain.CodeModelRetry, err.Error(), durable.DrainPause)
	default:
		return contract.TranscribeOut{}, err
	}
}

func (a *Activities) transcribeTurn(ctx context.Context, in contract.TranscribeIn) error {
	turn, err := a.Recordings.SpokenTurn(ctx, in.SessionID, in.ChatID, in.EntryID)
	if err != nil {
		return err
	}

	if turn.Stopped {
		return durable.ErrStopped
	}

	for i, part := range turn.Parts {
		switch {
		case part.AudioURL == nil || part.AudioURL.Status == domain.AudioTranscribed:
		case part.AudioURL.Status == domain.AudioFailed:
			if turn.ChatID == in.ChatID { // an earlier attempt was lost with its result
				return durable.Final(speech.CodeRefused, "the speech model rejected the recording")
			}
		default:
			if err := a.transcribePart(ctx, in, i, part); err != nil {
				return err
			}
		}
	}

	return nil
}

func (a *Activities) transcribePart(ctx context.Context, in contract.TranscribeIn, index int, part domain.ContentPart) error {
	heard := speech.Heard{
		SessionID: in.SessionID, ChatID: in.ChatID, EntryID: in.EntryID, Part: index, Status: domain.AudioTranscribed,
	}
	began := time.Now()

	rec, err := a.Recordings.Recording(ctx, strings.TrimPrefix(part.AudioURL.URL, domain.ObjectScheme))
	if err == nil {
		heard.Transcription, err = a.Speech.Transcribe(ctx, rec)
	}

	refusal := domain.AsError(speech.Fault(err))
	if err != nil && !refused(refusal) {
		return a.speechFailed(ctx, in, refusal, time.Since(began))
	}

	if err != nil {
		heard.Status = domain.AudioFailed
	}

	// What the speech model has said is kept also when the worker shuts down now.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordFor)
	defer cancel()

	if recorded := a.Recordings.RecordTranscription(keep, heard); recorded != nil {
		return recorded
	}

	a.Logger.Info("transcribed a recording", "session_id", in.SessionID, "chat_id", in.ChatID, "turn_id", in.EntryID,
		"status", heard.Status, "bytes", len(rec.Data), "took", time.Since(began))

	if err != nil {
		return durable.Final(refusal.Code, refusal.Message)
	}

	return nil
}

// refused reports whether the same recording would be rejected again: it is lost, in no
// known format, or the speech model does not take it.
func refused(e *domain.Error) bool {
	return e.Code == speech.CodeRefused || e.Code == speech.CodeInvalidAudio || e.Code == "object_not_found"
}

// speechFailed leaves the recording to the next attempt, or fails the chat when only an
// operator can help.
func (a *Activities) speechFailed(ctx context.Context, in contract.TranscribeIn, e *domain.Error, took time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	a.Logger.Warn("failed to transcribe a recording", "session_id", in.SessionID, "chat_id", in.ChatID, "turn_id", in.EntryID,
		"code", e.Code, "error", e, "took", took)

	if fault, known := errors.AsType[*domain.ModelError](e); known && !fault.Retryable() {
		return durable.Final(e.Code, e.Message)
	}

	return durable.Retry(e.Code, e.Message, time.Duration(min(e.RetryAfter, maxRetryAfter))*time.Second)
}

// maxRetryAfter bounds the pause that a speech model may ask for, in seconds.
const maxRetryAfter = 60
