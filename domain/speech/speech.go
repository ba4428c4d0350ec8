// Package speech contains recordings and their transcriptions: the accepted formats, the
// bounds, and the answers of a speech model as clients see them. It does not call a model.
package speech

import (
	"bytes"
	"errors"
	"time"

	"everloop/domain"
)

// Bounds of speech recognition.
const (
	// MaxTranscript bounds the stored text of one recording, in characters.
	MaxTranscript = 100_000
	// MaxRecordings bounds the recordings of one message.
	MaxRecordings = 16
)

// Codes of speech recognition.
const (
	// CodeOff: no model for speech is configured.
	CodeOff = "transcription_not_configured"
	// CodeInvalidAudio: a file is not a recording in a supported format.
	CodeInvalidAudio = "invalid_audio"
	// CodeRefused: the speech model rejected the recording.
	CodeRefused = "transcription_refused"
	// CodeDown: the server of the speech model is unavailable or has failed.
	CodeDown = "transcription_unavailable"
)

// Recording is audio to transcribe.
type Recording struct {
	Data     []byte
	Format   AudioFormat
	Language string // ISO 639-1; empty: detected by the model
	Prompt   string // names and words that the recording may contain
}

// Transcription is the result of a speech model.
type Transcription struct {
	Text            string
	Language        string  // empty: unknown
	DurationSeconds float64 // 0: unknown
	Model           string
	Usage           domain.Usage
}

// AudioFormat is a file format of recordings.
type AudioFormat struct {
	Name string // the end of a file's name
	MIME string
}

// audioFormats are the formats that transcription servers accept, by the first bytes of their
// files.
var audioFormats = []struct {
	AudioFormat
	is func(head []byte) bool
}{
	{AudioFormat{"wav", "audio/wav"}, func(b []byte) bool { return has(b, 0, "RIFF") && has(b, 8, "WAVE") }},
	{AudioFormat{"mp3", "audio/mpeg"}, func(b []byte) bool { return has(b, 0, "ID3") || isMPEG(b) }},
	{AudioFormat{"ogg", "audio/ogg"}, func(b []byte) bool { return has(b, 0, "OggS") }},
	{AudioFormat{"flac", "audio/flac"}, func(b []byte) bool { return has(b, 0, "fLaC") }},
	{AudioFormat{"webm", "audio/webm"}, func(b []byte) bool { return has(b, 0, "\x1a\x45\xdf\xa3") }},
	{AudioFormat{"m4a", "audio/mp4"}, func(b []byte) bool { return has(b, 4, "ftyp") }},
}

// AudioFormatNames lists the known formats, for messages.
const AudioFormatNames = "WAV, MP3, Ogg, FLAC, WebM or M4A"

// FindAudioFormat returns the format of a recording by its content.
func FindAudioFormat(data []byte) (AudioFormat, bool) {
	for _, f := range audioFormats {
		if f.is(data) {
			return f.AudioFormat, true
		}
	}

	return AudioFormat{}, false
}

// AudioFormatOf returns the format of a media type, as stored with recordings.
func AudioFormatOf(mime string) (AudioFormat, bool) {
	for _, f := range audioFormats {
		if f.MIME == mime {
			return f.AudioFormat, true
		}
	}

	return AudioFormat{}, false
}

func has(data []byte, at int, mark string) bool {
	return len(data) >= at+len(mark) && bytes.Equal(data[at:at+len(mark)], []byte(mark))
}

// isMPEG reports whether the data starts with the header of an MPEG audio frame: eleven set
// bits, then a layer, a bit rate and a sampling rate that are valid.
func isMPEG(b []byte) bool {
	return len(b) >= 4 && b[0] == 0xff && b[1]&0xe0 == 0xe0 && b[1]&0x18 != 0x08 && b[1]&0x06 != 0 && b[2]&0xf0 != 0xf0 &&
		b[2]&0x0c != 0x0c
}

// Heard is the transcription of one part of a user turn.
type Heard struct {
	SessionID domain.SessionID
	ChatID    domain.ChatID // the chat that waits for it
	EntryID   domain.TurnID
	Part      int // index
	Status    domain.AudioStatus
	Transcription
}

// SpokenTurn is a user turn whose recordings must be transcribed.
type SpokenTurn struct {
	ChatID  domain.ChatID // of the turn
	Parts   []domain.ContentPart
	Stopped bool // the chat that waits for it has ended or was stopped
}

// Fault returns the error of a speech model in terms that clients understand. All other errors
// stay unchanged.
func Fault(err error) error {
	fault, known := errors.AsType[*domain.ModelError](err)
	if !known {
		return err
	}

	switch {
	case fault.Retryable():
		seconds := int((fault.RetryAfter + time.Second - 1) / time.Second)

		return &domain.Error{
			Kind: domain.Unavailable, Code: CodeDown, RetryAfter: seconds, Err: fault,
			Message: "the speech model is not available; try again",
		}
	case fault.Fault == domain.FaultUnknownModel, fault.Status == 401, fault.Status == 403:
		return &domain.Error{
			Kind: domain.Unavailable, Code: CodeDown, Err: fault,
			Message: "the server of the speech model rejects this service: an operator must check ASR_MODEL, its server and its key",
		}
	}

	return domain.Newf(domain.Invalid, CodeRefused, "the speech model rejected the recording: %s", fault.Message)
}

// TranscriptPatch returns a patch that adds the text of a recording to the user turn that has
// the blocks: to its last block if that is text, else in a new one.
func TranscriptPatch(turnID domain.TurnID, blocks []domain.Block, said string) domain.AddContentPatch {
	patch := domain.AddContentPatch{
		TurnID:     turnID,
		PatchType:  domain.PatchAddContent,
		TextDelta:  said,
		BlockType:  domain.BlockText,
		Transcript: true,
	}

	if n := len(blocks); n > 0 && blocks[n-1].Type == domain.BlockText && blocks[n-1].Content != "" {
		patch.Offset, patch.TextDelta = domain.UTF16Len(blocks[n-1].Content), "\n\n"+said
	}

	return patch
}
