package speech_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/speech"
)

func TestFindAudioFormat(t *testing.T) {
	t.Parallel()

	for head, want := range map[string]string{
		"RIFF\x00\x00\x00\x00WAVEfmt ": "wav", "ID3\x04": "mp3", "\xff\xfb\x90\x64": "mp3", "OggS\x00": "ogg", "fLaC": "flac",
		"\x1a\x45\xdf\xa3\x01": "webm", "\x00\x00\x00\x20ftypM4A ": "m4a",
		"": "", "RIFF": "", "RIFF\x00\x00\x00\x00WEBP": "", "\xff\xd8\xff\xe0": "", "\x89PNG": "", "hello": "", "\xff\xff\xff\xff": "",
	} {
		format, known := speech.FindAudioFormat([]byte(head))
		require.Equal(t, want != "", known, "%q", head)
		require.Equal(t, want, format.Name, "%q", head)

		if known {
			again, found := speech.AudioFormatOf(format.MIME)
			require.True(t, found)
			require.Equal(t, format, again)
		}
	}
}

// Clients fold the patch into the turn that they have.
func TestTranscriptPatch_folds(t *testing.T) {
	t.Parallel()

	audio := domain.Block{Type: domain.BlockAudio, Content: "/a"}
	text := func(s string) domain.Block { return domain.Block{Type: domain.BlockText, Content: s} }

	for name, tc := range map[string]struct{ before, after []domain.Block }{
		"a recording":                       {[]domain.Block{audio}, []domain.Block{audio, text("said")}},
		"a recording before a text":         {[]domain.Block{audio, text("😀")}, []domain.Block{audio, text("😀\n\nsaid")}},
		"a recording behind a text":         {[]domain.Block{text("x"), audio}, []domain.Block{text("x"), audio, text("said")}},
		"the second of two recordings":      {[]domain.Block{audio, audio, text("one")}, []domain.Block{audio, audio, text("one\n\nsaid")}},
		"a recording before an empty text":  {[]domain.Block{audio, text("")}, []domain.Block{audio, text("said")}},
		"a recording behind an empty text ": {[]domain.Block{text(""), audio}, []domain.Block{text(""), audio, text("said")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			data, err := json.Marshal(speech.TranscriptPatch("turn", tc.before, "said"))
			require.NoError(t, err)

			turn := domain.Turn{TurnID: "turn", Blocks: tc.before}
			require.NoError(t, domain.FoldTurn(&turn, domain.LoggedEvent{Event: domain.Event{Name: domain.EventTurnPatch, Data: data}}))
			require.Equal(t, tc.after, turn.Blocks)
		})
	}
}

func TestContentPart_Heard(t *testing.T) {
	t.Parallel()

	part := func(status domain.AudioStatus, text string) domain.ContentPart {
		return domain.ContentPart{Type: "audio_url", Text: text, AudioURL: &domain.AudioURL{URL: "object:x", Status: status}}
	}
	require.Equal(t, "hello", part(domain.AudioTranscribed, "hello").Heard())
	require.Equal(t, "[A recording without speech.]", part(domain.AudioTranscribed, " ").Heard())
	require.Equal(t, "[A recording that could not be transcribed.]", part(domain.AudioFailed, "").Heard())
	require.Equal(t, "[A recording.]", part("", "").Heard())
	require.True(t, part("", "").Untranscribed())
	require.False(t, part(domain.AudioFailed, "").Untranscribed())

	moved := part(domain.AudioFailed, "").WithAttachment("object:y")
	require.Equal(t, &domain.AudioURL{URL: "object:y", Status: domain.AudioFailed}, moved.AudioURL)
	require.Equal(t, "object:y", moved.Attachment())
}

func TestSpeechFault(t *testing.T) {
	t.Parallel()

	fault := func(kind domain.ModelFault, status int) *domain.Error {
		return domain.AsError(speech.Fault(&domain.ModelError{
			Fault: kind, Status: status, Message: "why", RetryAfter: 1500 * time.Millisecond,
		}))
	}

	limited := fault(domain.FaultRateLimited, 429)
	require.Equal(t, speech.CodeDown, limited.Code)
	require.True(t, limited.Retryable())
	require.Equal(t, 2, limited.RetryAfter)
	require.Equal(t, speech.CodeDown, fault(domain.FaultRefused, 401).Code)
	require.Contains(t, fault(domain.FaultUnknownModel, 404).Message, "ASR_MODEL")

	refused := fault(domain.FaultRefused, 400)
	require.Equal(t, speech.CodeRefused, refused.Code)
	require.Equal(t, domain.Invalid, refused.Kind)
	require.Contains(t, refused.Message, "why")

	other := errors.New("other")
	require.Equal(t, other, speech.Fault(other))
}
