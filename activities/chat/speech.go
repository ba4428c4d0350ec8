package chat

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/speech"
	"everloop/infra/events"
	"everloop/infra/model"
	"everloop/infra/objects"
	"everloop/infra/postgres/conversation"
	"everloop/internal/durable"
)

// recordFor is how long the words of a recording are kept while the database is unavailable.
const recordFor = 2 * time.Minute

// Transcriber transcribes the recordings of messages.
type Transcriber struct {
	Speech    *model.Speech // nil: recordings are not transcribed
	Store     *conversation.Store
	Objects   *objects.Store
	Signals   *events.Signals
	DrainTime time.Duration // how long a transcription continues after its worker received its stop signal
	Logger    *slog.Logger

	running durable.Shared[contract.TranscribeIn, contract.TranscribeOut]
}

// Drain waits until no transcription runs, or ctx ends.
func (t *Transcriber) Drain(ctx context.Context) { t.running.Wait(ctx) }

// Transcribe has the recordings of a user turn transcribed, each of them in a step of its
// own: the next attempt after a lost worker continues with those that are not recorded.
func (t *Transcriber) Transcribe(ctx context.Context, in contract.TranscribeIn) (contract.TranscribeOut, error) {
	return t.running.Run(ctx, in, durable.AbandonAfter, func(ctx context.Context) (contract.TranscribeOut, error) {
		return t.transcribe(ctx, in)
	})
}

func (t *Transcriber) transcribe(ctx context.Context, in contract.TranscribeIn) (contract.TranscribeOut, error) {
	if t.Speech == nil {
		return contract.TranscribeOut{}, durable.Final(speech.CodeOff, "no model for speech is configured: set ASR_MODEL")
	}

	// Watch before the flag is looked at, so that no stop falls in between.
	stopped, unwatch := t.Signals.Watch(in.ChatID, in.TaskID)
	defer unwatch()

	working, abort := durable.UntilInterrupted(ctx, stopped, t.DrainTime)
	defer abort(nil)

	err := t.transcribeTurn(working, in)
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

func (t *Transcriber) transcribeTurn(ctx context.Context, in contract.TranscribeIn) error {
	turn, err := t.Store.SpokenTurn(ctx, in.SessionID, in.ChatID, in.EntryID)
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
			if err := t.transcribePart(ctx, in, i, part); err != nil {
				return err
			}
		}
	}

	return nil
}

func (t *Transcriber) transcribePart(ctx context.Context, in contract.TranscribeIn, index int, part domain.ContentPart) error {
	heard := speech.Heard{
		SessionID: in.SessionID, ChatID: in.ChatID, EntryID: in.EntryID, Part: index, Status: domain.AudioTranscribed,
	}
	began := time.Now()

	rec, err := t.Objects.Recording(ctx, strings.TrimPrefix(part.AudioURL.URL, domain.ObjectScheme))
	if err == nil {
		heard.Transcription, err = t.Speech.Transcribe(ctx, rec)
	}

	refusal := domain.AsError(speech.Fault(err))
	if err != nil && !refused(refusal) {
		return t.speechFailed(ctx, in, refusal, time.Since(began))
	}

	if err != nil {
		heard.Status = domain.AudioFailed
	}

	// What the speech model has said is kept also when the worker shuts down now.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordFor)
	defer cancel()

	if recorded := t.Store.RecordTranscription(keep, heard); recorded != nil {
		return recorded
	}

	t.Logger.Info("transcribed a recording", "session_id", in.SessionID, "chat_id", in.ChatID, "turn_id", in.EntryID,
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
func (t *Transcriber) speechFailed(ctx context.Context, in contract.TranscribeIn, e *domain.Error, took time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	t.Logger.Warn("failed to transcribe a recording", "session_id", in.SessionID, "chat_id", in.ChatID, "turn_id", in.EntryID,
		"code", e.Code, "error", e, "took", took)

	if fault, known := errors.AsType[*domain.ModelError](e); known && !fault.Retryable() {
		return durable.Final(e.Code, e.Message)
	}

	return durable.Retry(e.Code, e.Message, time.Duration(min(e.RetryAfter, maxRetryAfter))*time.Second)
}

// maxRetryAfter bounds the pause that a speech model may ask for, in seconds.
const maxRetryAfter = 60
