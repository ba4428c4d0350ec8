package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/speech"
)

// parrot hears what it is sent, or fails.
type parrot struct{ fault error }

func (p *parrot) MaxBytes() int { return 1000 }

func (p *parrot) Transcribe(_ context.Context, rec speech.Recording) (speech.Transcription, error) {
	return speech.Transcription{
		Text: rec.Format.Name + " " + rec.Language + " " + rec.Prompt + " " + string(rec.Data), Model: "ears", DurationSeconds: 1.5,
		Usage: domain.Usage{InputTokens: 3, OutputTokens: 2},
	}, p.fault
}

func TestTranscribe(t *testing.T) {
	t.Parallel()

	ears := &parrot{}
	w := newWorld(t, func(c *parts) { c.System.Speech = ears })
	send := func(file string, fields ...string) reply {
		body, kind := form(t, file, fields...)
		return w.do(http.MethodPost, "/api/transcribe", w.ann, body, header("Content-Type", kind))
	}

	require.Equal(t, map[string]any{
		"text": "ogg en Everloop OggS speech", "model": "ears", "duration_seconds": 1.5,
		"usage": map[string]any{"input_tokens": 3.0, "output_tokens": 2.0},
	}, send("OggS speech", "language", "EN", "prompt", "Everloop", "unknown", "x").json())

	send("no recording").code(422, "invalid_audio")
	send("").code(422, "invalid_audio")
	send("OggS"+strings.Repeat("x", 997)).code(413, "audio_too_large")
	require.Equal(t, []string{"body.language"}, send("OggS", "language", "english").fields())
	require.Equal(t, []string{"body.prompt"}, send("OggS", "prompt", strings.Repeat("é", 1001)).fields())
	w.do(http.MethodPost, "/api/transcribe", w.ann, "{}", header("Content-Type", "application/json")).code(415, "unsupported_media_type")

	ears.fault = &domain.ModelError{Fault: domain.FaultRateLimited, Status: 429, Message: "busy", RetryAfter: 9 * time.Second}

	send("OggS").code(503, "transcription_unavailable")

	ears.fault = &domain.ModelError{Fault: domain.FaultRefused, Status: 400, Message: "too noisy"}

	require.Contains(t, send("OggS").text, "too noisy")
	send("OggS").code(422, "transcription_refused")

	ears.fault = context.DeadlineExceeded

	send("OggS").code(503, "transcription_unavailable")
}

func TestTranscribe_notConfigured(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *parts) { c.System.Speech = nil })
	body, kind := form(t, "OggS")
	w.do(http.MethodPost, "/api/transcribe", w.ann, body, header("Content-Type", kind)).code(422, "transcription_not_configured")
}

// Uploads wait in temporary files: they are refused while there is no room for them.
func TestUploads_diskFull(t *testing.T) {
	t.Parallel()

	asked := 0 // the second upload loses its room on the way
	w := newWorld(t, func(c *parts) {
		c.System.Speech = &parrot{}
		c.Room = func() error {
			asked++
			if asked == 2 {
				return nil
			}

			return errors.New("12 bytes are free")
		}
	})

	body, kind := form(t, "OggS")
	w.do(http.MethodPost, "/api/transcribe", w.ann, body, header("Content-Type", kind)).code(503, "disk_full")

	body, kind = form(t, strings.Repeat("x", 9<<20))
	w.do(http.MethodPost, "/api/sessions/preview-import", w.ann, body, header("Content-Type", kind)).code(503, "disk_full")
	require.Equal(t, 3, asked)
}

// slowEars hear nothing until they may.
type slowEars struct {
	parrot

	heard chan struct{}
	may   chan struct{}
}

func (e *slowEars) Transcribe(ctx context.Context, rec speech.Recording) (speech.Transcription, error) {
	e.heard <- struct{}{}

	<-e.may

	return e.parrot.Transcribe(ctx, rec)
}

// One user does not take all places.
func TestTranscribe_ownShare(t *testing.T) {
	t.Parallel()

	ears := &slowEars{heard: make(chan struct{}, 8), may: make(chan struct{})}
	w := newWorld(t, func(c *parts) { c.System.Speech = ears })
	send := func(key string) reply {
		body, kind := form(t, "OggS")
		return w.do(http.MethodPost, "/api/transcribe", key, body, header("Content-Type", kind))
	}

	var all sync.WaitGroup

	answers := make([]reply, 5)

	for i := range 4 {
		all.Go(func() { answers[i] = send(w.ann) })

		<-ears.heard
	}

	send(w.ann).code(429, "too_many_transcriptions")
	all.Go(func() { answers[4] = send(w.bob) })

	<-ears.heard
	close(ears.may)
	all.Wait()

	for _, answer := range append(answers, send(w.ann)) {
		require.Equal(t, "ears", answer.json()["model"])
	}
}
