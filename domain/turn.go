package domain

import (
	"encoding/json"
	"path"
	"strings"
	"time"
)

// TurnStatus is the state of one turn.
type TurnStatus string

// streaming → completed, paused, failed or interrupted; paused → completed or
// interrupted when its question resolves.
const (
	TurnStreaming   TurnStatus = "streaming"
	TurnCompleted   TurnStatus = "completed"
	TurnPaused      TurnStatus = "paused"
	TurnFailed      TurnStatus = "failed"
	TurnInterrupted TurnStatus = "interrupted"
)

// Role says who speaks in a turn.
type Role string

// The roles of a turn.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// Kinds of entries in the messages list.
const (
	KindMessage    = "message"
	KindCompaction = "compaction"
)

// RootLoop is the loop id of the main agent; sub-agents have their own.
const RootLoop = "root"

// BlockType names what a block holds.
type BlockType string

// Block types of agent-service.md and shapes.md section 2.
const (
	BlockText       BlockType = "text"
	BlockThinking   BlockType = "thinking"
	BlockToolUse    BlockType = "tool_use"
	BlockToolResult BlockType = "tool_result"
	BlockImage      BlockType = "image"
	BlockFile       BlockType = "file"
	BlockPlan       BlockType = "plan"
	BlockError      BlockType = "error"
	BlockQuestion   BlockType = "question"
	BlockSystemNote BlockType = "system_note"
)

// Block is one piece of a turn, in the order it was said. An image block's
// content is the path at which the API serves the picture.
type Block struct {
	Type        BlockType `json:"type"`
	Content     string    `json:"content"`
	ToolCallID  *string   `json:"tool_call_id"`
	ToolName    *string   `json:"tool_name"`
	DisplayName *string   `json:"display_name"`
}

// ToolCallStatus is the state of one tool call as clients see it.
type ToolCallStatus string

// pending → done, error or cancelled; pending → awaiting_answer → done or
// cancelled.
const (
	CallPending        ToolCallStatus = "pending"
	CallDone           ToolCallStatus = "done"
	CallError          ToolCallStatus = "error"
	CallCancelled      ToolCallStatus = "cancelled"
	CallAwaitingAnswer ToolCallStatus = "awaiting_answer"
)

// Phases of a tool call: finer than its status, and the ledger's own states.
const (
	PhaseQueued         = "queued"          // reserved: nothing was executed yet
	PhaseRunning        = "running"         // committed before anything is executed
	PhaseFinished       = "finished"        // its result is recorded; clients read null
	PhaseUnknownOutcome = "unknown_outcome" // its worker died while it ran
)

// CallPhase is a phase as clients see it. A finished call has none: its status
// says how it ended (shapes.md section 1).
type CallPhase string

// MarshalJSON implements json.Marshaler.
func (p CallPhase) MarshalJSON() ([]byte, error) {
	if p == PhaseFinished {
		return []byte("null"), nil
	}
	return json.Marshal(string(p))
}

// UnmarshalJSON implements json.Unmarshaler: null is a finished call's.
func (p *CallPhase) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*p = PhaseFinished
		return nil
	}
	return json.Unmarshal(data, (*string)(p))
}

// ToolCall is one tool call as clients see it, in events and in messages.
type ToolCall struct {
	ID                 string              `json:"id"`
	ToolName           string              `json:"tool_name"`
	DisplayName        string              `json:"display_name"`
	Arguments          string              `json:"arguments"`
	Status             ToolCallStatus      `json:"status"`
	Result             string              `json:"result"`
	DurationMS         int64               `json:"duration_ms"`
	PendingQuestionRef *PendingQuestionRef `json:"pending_question_ref"`
	Phase              CallPhase           `json:"phase" nullable:"true" enum:"queued,running,unknown_outcome"`
}

// PendingQuestionRef points from a tool call to its open question.
type PendingQuestionRef struct {
	QuestionID string      `json:"question_id"`
	AskedAt    time.Time   `json:"asked_at"`
	ExpiresAt  *time.Time  `json:"expires_at,omitempty"`
	SourceLoop *SourceLoop `json:"source_loop,omitempty"`
}

// Usage counts the tokens of a turn, or of a whole chat.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens}
}

// Turn is the projection of one entry in GET /api/sessions/{id}/messages, in
// `open_turns` and in replays: agent-service.md, "Turn projection".
type Turn struct {
	ID                   string     `json:"id"`
	Sequence             int64      `json:"sequence"`
	TurnID               string     `json:"turn_id"`
	ChatID               string     `json:"chat_id"`
	LoopID               string     `json:"loop_id"`
	Kind                 string     `json:"kind"`
	Role                 Role       `json:"role"`
	Status               TurnStatus `json:"status"`
	Blocks               []Block    `json:"blocks"`
	ToolCalls            []ToolCall `json:"tool_calls"`
	Model                string     `json:"model"`
	Usage                Usage      `json:"usage"`
	DurationMS           int64      `json:"duration_ms"`
	StartedAt            time.Time  `json:"started_at"`
	ContextWindow        int64      `json:"context_window"`
	MemoryRefs           any        `json:"memory_refs"`
	ParentForkToolCallID *string    `json:"parent_fork_tool_call_id"`
	Deprecated           bool       `json:"deprecated"`
	FailureReason        *string    `json:"failure_reason"`
	CompactionID         *string    `json:"compaction_id"`
	SummaryPreview       *string    `json:"summary_preview"`
	SummaryFull          *string    `json:"summary_full"`
	ArchivedCount        *int64     `json:"archived_count"`
	TokensBefore         *int64     `json:"tokens_before"`
	TokensAfter          *int64     `json:"tokens_after"`
	SavedRatio           *float64   `json:"saved_ratio"`
	Trigger              *string    `json:"trigger"`
}

// ContentPart is one part of a client's message: text, or an image by URL
// (a data URL with base64 content is allowed).
type ContentPart struct {
	Type     string    `json:"type"` // text or image_url
	Text     string    `json:"text,omitempty"`
	ImageURL *ImageURL `json:"image_url,omitempty"`
}

// ImageURL is the address of an image part.
type ImageURL struct {
	URL string `json:"url"`
}

// Question is an open AskUserQuestion as `pending_questions` lists it.
type Question struct {
	ID         string          `json:"question_id" db:"id"`
	SessionID  string          `json:"session_id" db:"session_id"`
	ChatID     string          `json:"chat_id" db:"chat_id"`
	TurnID     string          `json:"turn_id" db:"entry_id"`
	ToolCallID string          `json:"tool_call_id" db:"tool_call_id"`
	LoopID     string          `json:"loop_id" db:"loop_id"`
	Questions  json.RawMessage `json:"questions" db:"questions"`
	AskedAt    time.Time       `json:"asked_at" db:"asked_at"`
	SourceLoop *SourceLoop     `json:"source_loop,omitempty" db:"source_loop"` // nil: the main loop asks

	// Of a question for permission: the call that it holds back, and the rules that
	// an answer for the whole session adds to its setup.
	Guards *string          `json:"permission_for,omitempty" db:"guards"`
	Allows []PermissionRule `json:"-" db:"allows"`
}

// ObjectScheme marks an image of a message that is kept as an object: the rest
// of the URL is the object's name.
const ObjectScheme = "object:"

// AttachmentPath is where clients find an image of a message: the API's path
// for one that is kept as an object, else the address that the client gave.
func AttachmentPath(sessionID, url string) string {
	if name, kept := strings.CutPrefix(url, ObjectScheme); kept {
		return "/api/sessions/" + sessionID + "/attachments/" + path.Base(name)
	}
	return url
}
