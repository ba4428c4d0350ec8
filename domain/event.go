package domain

import (
	"encoding/json"
	"time"
)

// Names of the events that the service sends (agent-service.md "Service to
// client" and decisions.md section 3).
const (
	EventChatStart        = "chat:start"
	EventChatEnd          = "chat:end"
	EventTurnStart        = "turn:start"
	EventTurnPatch        = "turn:patch"
	EventTurnEnd          = "turn:end"
	EventSessionUpdated   = "session:updated"
	EventSessionCompacted = "session:compacted"
	EventQuestionResolved = "question:resolved"
	EventTaskUpdated      = "background_task:updated"
	EventFileChanged      = "file:changed"
	EventCheckpoint       = "checkpoint:created"
)

// Patch types of turn:patch.
const (
	PatchAddContent   = "add_content"
	PatchAddToolCall  = "add_tool_call"
	PatchToolResult   = "tool_result"
	PatchToolProgress = "tool_progress"
	PatchRetry        = "retry"
)

// Event is one event of a session before it has a place in the log. Data is a
// JSON object without the envelope fields; the log gives `seq`, and the reader
// of the log gives `prev_seq`.
type Event struct {
	ID        string // unique; the log keeps one copy
	SessionID string
	Name      string
	ChatID    string // empty where no chat is meant
	At        time.Time
	Data      json.RawMessage
}

// LoggedEvent is an event at its place in the log.
type LoggedEvent struct {
	Event
	Seq     uint64 // grows within the session, not dense
	PrevSeq uint64 // the session's event before it, 0 for the first kept
}

// Wire is the event as clients get it: Data's fields plus session_id, seq,
// prev_seq, ts and chat_id.
func (e LoggedEvent) Wire() json.RawMessage {
	head, err := json.Marshal(struct {
		SessionID string `json:"session_id"`
		Seq       uint64 `json:"seq"`
		PrevSeq   uint64 `json:"prev_seq"`
		TS        string `json:"ts"`
		ChatID    string `json:"chat_id,omitempty"`
	}{e.SessionID, e.Seq, e.PrevSeq, e.At.UTC().Format(time.RFC3339Nano), e.ChatID})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	if len(e.Data) <= 2 { // "{}" or nothing
		return head
	}
	out := make([]byte, 0, len(head)+len(e.Data))
	out = append(out, head[:len(head)-1]...)
	out = append(out, ',')
	return append(out, e.Data[1:]...)
}
