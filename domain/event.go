package domain

import (
	"encoding/json"
	"time"
)

// Names of the events that the service sends (docs/events.md#server-events).
const (
	EventChatStart        = "chat:start"
	EventChatEnd          = "chat:end"
	EventTurnStart        = "turn:start"
	EventTurnPatch        = "turn:patch"
	EventTurnEnd          = "turn:end"
	EventSessionUpdated   = "session:updated"
	EventSessionCompacted = "session:compacted"
	EventCompactionSkip   = "session:compaction_skipped"
	EventQuestionResolved = "question:resolved"
	EventTaskUpdated      = "background_task:updated"
	EventFileChanged      = "file:changed"
	EventCheckpoint       = "checkpoint:created"
	EventSessionResync    = "session:resync"
	EventSessionError     = "session:error"
)

// Patch types of turn:patch.
const (
	PatchAddContent   = "add_content"
	PatchAddToolCall  = "add_tool_call"
	PatchToolResult   = "tool_result"
	PatchToolProgress = "tool_progress"
	PatchRetry        = "retry"
)

// DeclaredEvent declares an event that the service sends, for docs/events.json.
type DeclaredEvent struct {
	Name     string
	Meaning  string
	OfChat   bool  // chat_id is always present
	Unlogged bool  // not in the log, without an EventEnvelope
	Payloads []any // one of each type; patch_type distinguishes several
}

// DeclaredEvents are the events that the service sends.
func DeclaredEvents() []DeclaredEvent {
	return []DeclaredEvent{
		{Name: EventChatStart, Meaning: "A chat starts, or continues.", OfChat: true, Payloads: []any{ChatStarted{}}},
		{Name: EventChatEnd, Meaning: "A chat ends, or waits for an answer.", OfChat: true, Payloads: []any{ChatEnded{}}},
		{Name: EventTurnStart, Meaning: "A turn starts.", OfChat: true, Payloads: []any{TurnStarted{}}},
		{
			Name: EventTurnPatch, Meaning: "A turn changes. A client may ignore types that it does not know.", OfChat: true,
			Payloads: []any{AddContentPatch{}, AddToolCallPatch{}, ToolResultPatch{}, ToolProgressPatch{}, RetryPatch{}},
		},
		{Name: EventTurnEnd, Meaning: "A turn ends, or waits for an answer.", OfChat: true, Payloads: []any{TurnEnded{}}},
		{Name: EventSessionUpdated, Meaning: "The summary of the session changed.", Payloads: []any{SessionUpdated{}}},
		{Name: EventSessionCompacted, Meaning: "A part of the history was summarised.", Payloads: []any{SessionCompacted{}}},
		{
			Name: EventCompactionSkip, Meaning: "A summary that was asked for was not made.",
			Payloads: []any{SkippedCompaction{}},
		},
		{Name: EventQuestionResolved, Meaning: "A question was answered or cancelled.", OfChat: true, Payloads: []any{QuestionResolved{}}},
		{Name: EventTaskUpdated, Meaning: "A background task started, stopped or ended.", Payloads: []any{TaskUpdated{}}},
		{Name: EventFileChanged, Meaning: "A file of the workspace changed.", Payloads: []any{FileChange{}}},
		{Name: EventCheckpoint, Meaning: "A checkpoint was created.", Payloads: []any{CheckpointCreated{}}},
		{
			Name: EventSessionResync, Meaning: "The subscriber was too slow, or the log could not be read: nothing more comes. " +
				"Subscribe again.",
			Unlogged: true, Payloads: []any{SessionResync{}},
		},
		{
			Name: EventSessionError, Meaning: "A client event without a callback failed, or a subscription ended.",
			Unlogged: true, Payloads: []any{SessionError{}},
		},
	}
}

// Event is one event of a session before it is published. Data is a JSON object without the
// envelope fields; the event log assigns `seq`, and its reader computes `prev_seq`.
type Event struct {
	ID        string // unique; the log deduplicates by it
	SessionID SessionID
	Name      string
	ChatID    ChatID // empty for events without a chat
	At        time.Time
	Data      json.RawMessage
	// LostSeq is the sequence of the event in the log before the log lost its end; 0 for an
	// event that was not lost.
	LostSeq uint64
}

// LoggedEvent is an event with its position in the log.
type LoggedEvent struct {
	Event
	Seq     uint64 // grows within the session, not dense
	PrevSeq uint64 // the session's previous event, 0 for the first stored one
}

// Wire returns the event as clients receive it: Data's fields plus session_id, seq, prev_seq,
// ts and chat_id.
func (e LoggedEvent) Wire() json.RawMessage {
	head, err := json.Marshal(EventEnvelope{e.SessionID, e.Seq, e.PrevSeq, e.At.UTC().Format(time.RFC3339Nano), e.ChatID})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}

	if len(e.Data) <= 2 { // "{}" or empty
		return head
	}

	out := make([]byte, 0, len(head)+len(e.Data))
	out = append(out, head[:len(head)-1]...)
	out = append(out, ',')

	return append(out, e.Data[1:]...)
}
