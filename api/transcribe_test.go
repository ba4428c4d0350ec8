package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/api"
	"everloop/domain"
)

// parrot hears what it is sent, or fails.
type parrot struct{ fault error }

func (p *parrot) MaxBytes() int { return 1000 }

func (p *parrot) Transcribe(_ context.Context, rec domain.Recording) (domain.Transcription, error) {
	return domain.Transcription{
		Text: rec.Format.Name + " " + rec.Language + " " + rec.Prompt + " " + string(rec.Data), Model: "ears", DurationSeconds: 1.5,
		Usage: domain.Usage{InputTokens: 3, OutputTokens: 2},
	}, p.fault
}

func TestTranscribe(t *testing.T) {
	t.Parallel()

	ears := &parrot{}
	w := newWorld(t, func(c *api.Config) { c.Speech = ears })
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

	w := newWorld(t, func(c *api.Config) { c.Speech = nil })
	body, kind := form(t, "OggS")
	w.do(http.MethodPost, "/api/transcribe", w.ann, body, header("Content-Type", kind)).code(422, "transcription_not_configured")
}
