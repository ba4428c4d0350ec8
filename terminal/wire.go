package terminal

import (
	"encoding/json"
	"time"
)

// Session contains the fields of a session's summary that matter here.
type Session struct {
	ID          string          `json:"id"`
	Intent      string          `json:"intent"`
	Status      string          `json:"status"`
	UpdatedAt   time.Time       `json:"updated_at"`
	ReplayState json.RawMessage `json:"replay_state"`
	LastEnd     *Event          `json:"last_end"` // chat:end of its last chat; nil if none ended, or in a list
}

// Send is the body of POST /api/sessions/{id}/chat for a message.
type Send struct {
	Message         string          `json:"message"`
	Mode            string          `json:"mode,omitempty"`
	Headless        bool            `json:"headless,omitempty"`
	OutputSchema    json.RawMessage `json:"output_schema,omitempty"`
	Delivery        string          `json:"delivery,omitempty"`
	ClientMessageID string          `json:"client_message_id"`
}

// Answer is the `askuser_answer` of a chat:send. It contains options or free text for every
// question, by its number from "0".
type Answer struct {
	ToolCallID string            `json:"tool_call_id"`
	Selections map[string][]int  `json:"selections,omitempty"`
	Custom     map[string]string `json:"custom,omitempty"`
}

// Accepted confirms that a message or answer is durable.
type Accepted struct {
	ChatID          string `json:"chat_id"`
	TurnID          string `json:"turn_id"`
	DeliveryApplied string `json:"delivery_applied"`
	Position        int    `json:"position"` // in the queue; 0: not queued
	Resolved        bool   `json:"resolved"` // this answer resolved the question
	QuestionID      string `json:"question_id"`
}

// Question is one question of an AskUserQuestion call.
type Question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header"`
	Options     []Option `json:"options"`
	MultiSelect bool     `json:"multiSelect"`
}

// Option is an option of a question.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

// Asked is an open AskUserQuestion call.
type Asked struct {
	ToolCallID string     `json:"-"`
	Questions  []Question `json:"questions"`
}

// toolCall is a tool call of an event or of the messages list.
type toolCall struct {
	ID        string `json:"id"`
	Tool      string `json:"tool_name"`
	Display   string `json:"display_name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
}

// Event is an event of a session, with the fields of all kinds that matter here.
type Event struct {
	Name string `json:"-"`

	Seq     uint64 `json:"seq"`
	PrevSeq uint64 `json:"prev_seq"`
	ChatID  string `json:"chat_id"`
	TurnID  string `json:"turn_id"`

	ParentCall string `json:"parent_fork_tool_call_id"` // the sub-agent's call that owns the turn

	PatchType  string    `json:"patch_type"`
	TextDelta  string    `json:"text_delta"`
	BlockType  string    `json:"block_type"`
	ToolCall   *toolCall `json:"tool_call"`
	ToolCallID string    `json:"tool_call_id"`

	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result"` // text of a tool result, object of a headless chat
	DurationMS int64           `json:"duration_ms"`

	FinishReason  string          `json:"finish_reason"`
	FailureReason string          `json:"failure_reason"`
	Steps         int             `json:"steps"`
	Usage         usage           `json:"usage"`
	Error         json.RawMessage `json:"error"`

	Resumed       bool   `json:"resumed"`
	WaitingReason string `json:"waiting_reason"`
	Reason        string `json:"reason"`
	QuestionID    string `json:"question_id"`
}

// failure is the error of chat:end, and of session:error, which ends a stream.
type failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

type usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// Event names.
const (
	eventChatStart = "chat:start"
	eventChatEnd   = "chat:end"
	eventTurnStart = "turn:start"
	eventTurnPatch = "turn:patch"
	eventTurnEnd   = "turn:end"
	eventUpdated   = "session:updated"
	eventResolved  = "question:resolved"
	eventCompacted = "session:compacted"
	eventResync    = "session:resync"
	eventError     = "session:error"
)

// text returns the event's result: a string unchanged, other values as JSON.
func (e *Event) text() string {
	var s string
	if json.Unmarshal(e.Result, &s) == nil {
		return s
	}
	return string(e.Result)
}

// failure returns the reason of a failed chat; empty if unknown.
func (e *Event) failure() string {
	var cause failure
	if json.Unmarshal(e.Error, &cause) == nil {
		if cause.Message != "" {
			return cause.Message
		}
		return cause.Code
	}
	var s string
	_ = json.Unmarshal(e.Error, &s) // other forms have no reason
	return s
}
