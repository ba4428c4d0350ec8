package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// Transcribe has the recordings of a user turn transcribed. What is recorded of it is not
// asked for a second time.
var Transcribe = durable.Activity[TranscribeIn, TranscribeOut]{Name: "speech.transcribe", Preset: durable.Speech}

// TranscribeIn names the turn, and the loop that waits for what was said.
type TranscribeIn struct {
	SessionID domain.SessionID `json:"session_id"`
	ChatID    domain.ChatID    `json:"chat_id"`
	TaskID    string           `json:"task_id,omitempty"` // of a background sub-agent
	EntryID   domain.TurnID    `json:"entry_id"`
}

// TranscribeOut reports whether the chat was stopped in the meantime.
type TranscribeOut struct {
	Stopped bool `json:"stopped,omitempty"`
}
