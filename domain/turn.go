package domain

import (
	"encoding/json"
	"path"
	"regexp"
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

// Role is the author of a turn.
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

// BlockType is the type of a block's content.
type BlockType string

// The types of blocks.
const (
	BlockText       BlockType = "text"
	BlockThinking   BlockType = "thinking"
	BlockToolUse    BlockType = "tool_use"
	BlockToolResult BlockType = "tool_result"
	BlockImage      BlockType = "image"
	BlockAudio      BlockType = "audio"
	BlockPlan       BlockType = "plan"
	BlockSystemNote BlockType = "system_note"
)

// Block is one piece of a turn, in stream order. The content of an image or audio block is the
// path at which the API serves the picture or the recording.
type Block struct {
	Type        BlockType `json:"type" doc:"The type." example:"text"`
	Content     string    `json:"content" doc:"The text." example:"What is in the repository?"`
	ToolCallID  *string   `json:"tool_call_id" doc:"The tool call." example:"call_01a1ff63-2eb5-77a8-8e3a-12f7a895526e"`
	ToolName    *string   `json:"tool_name" doc:"The tool." example:"Bash"`
	DisplayName *string   `json:"display_name" doc:"The display name." example:"Bash"`
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

// Phases of a tool call: more detailed than its status, and used by the ledger.
const (
	PhaseQueued         = "queued"          // reserved: not executed yet
	PhaseRunning        = "running"         // committed before anything is executed
	PhaseFinished       = "finished"        // its result is recorded; clients read null
	PhaseUnknownOutcome = "unknown_outcome" // its worker died while it ran
)

// CallPhase is a phase as clients see it. A finished call has none: its status describes how it
// ended (docs/concepts.md#tool-calls-phases-and-the-ledger).
type CallPhase string

// MarshalJSON implements json.Marshaler.
func (p CallPhase) MarshalJSON() ([]byte, error) {
	if p == PhaseFinished {
		return []byte("null"), nil
	}

	return json.Marshal(string(p))
}

// UnmarshalJSON implements json.Unmarshaler: null means a finished call.
func (p *CallPhase) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*p = PhaseFinished
		return nil
	}

	return json.Unmarshal(data, (*string)(p))
}

// ToolCall is one tool call as clients see it, in events and in messages.
type ToolCall struct {
	ID                 string              `json:"id" doc:"Its id." example:"call_01a1ff63-2eb5-77a8-8e3a-12f7a895526e"`
	ToolName           string              `json:"tool_name" doc:"The tool." example:"Bash"`
	DisplayName        string              `json:"display_name" doc:"The display name." example:"Bash"`
	Arguments          string              `json:"arguments" doc:"The arguments of the call, as a JSON string." example:"{\"command\":\"echo \\\"# Notes\\\" > notes.md; ls\"}"`
	Status             ToolCallStatus      `json:"status" doc:"Its status."`
	Result             string              `json:"result" doc:"The result of the tool."`
	DurationMS         int64               `json:"duration_ms" doc:"Duration in milliseconds." example:"34"`
	PendingQuestionRef *PendingQuestionRef `json:"pending_question_ref" doc:"The question that it waits for; null: none."`
	Phase              CallPhase           `json:"phase" nullable:"true" enum:"queued,running,unknown_outcome" doc:"The progress: queued, running, or unknown_outcome if its worker died while it ran; null once its result is recorded."`

	Connections []Connection `json:"connections,omitempty" doc:"What the call connected to, or was kept from; left out: nothing."`
	Images      []CallImage  `json:"images,omitempty" doc:"The images of its result; left out: none."`

	ServerCallID string `json:"-"` // the id that the model server gave the call; clients do not see it

	ServerMembers string `json:"-"` // members that the model server sent with the call and needs back
}

// PendingQuestionRef refers from a tool call to its open question.
type PendingQuestionRef struct {
	QuestionID    string        `json:"question_id" doc:"The question."`
	AskedAt       time.Time     `json:"asked_at" doc:"Time of the question."`
	ExpiresAt     *time.Time    `json:"expires_at,omitempty" doc:"Expiry time; null: never."`
	DefaultPolicy DefaultPolicy `json:"default_policy,omitempty" enum:"choose,first_option,answer" doc:"What answers then: the model itself chooses, the first option, or what a node of a DAG says. A permission request is denied."`
	SourceLoop    *SourceLoop   `json:"source_loop,omitempty" doc:"The sub-agent that asks; null: the agent itself."`
}

// Turn is the projection of one entry in GET /api/sessions/{id}/messages, in
// `open_turns` and in replays.
type Turn struct {
	ID                   TurnID     `json:"id" doc:"Its id." example:"01a1ff63-2e65-78fc-9f81-0bf414a0eeac"`
	Sequence             int64      `json:"sequence" doc:"Its position in the branch, from 0." example:"1"`
	TurnID               TurnID     `json:"turn_id" doc:"The turn." example:"01a1ff63-2e65-78fc-9f81-0bf414a0eeac"`
	ChatID               ChatID     `json:"chat_id" doc:"The chat." example:"01a1ff63-2e65-78f8-b33d-9f2aa7d7a79f"`
	LoopID               string     `json:"loop_id" doc:"The agent loop: root, or the id of a sub-agent." example:"root"`
	Kind                 string     `json:"kind" doc:"The type." example:"message"`
	Role                 Role       `json:"role" doc:"The role: user, assistant, system or tool." example:"user"`
	Status               TurnStatus `json:"status" doc:"Its status." example:"completed"`
	Blocks               []Block    `json:"blocks" doc:"The content, in order."`
	ToolCalls            []ToolCall `json:"tool_calls" doc:"The tool calls."`
	Model                string     `json:"model" doc:"The model." example:"everloop-demo"`
	Usage                Usage      `json:"usage" doc:"Token usage." example:"{\"input_tokens\": 0, \"output_tokens\": 0}"`
	DurationMS           int64      `json:"duration_ms" doc:"Duration in milliseconds." example:"19"`
	StartedAt            time.Time  `json:"started_at" doc:"Start time."`
	ContextWindow        int64      `json:"context_window" doc:"Context window of the model in tokens." example:"128000"`
	MemoryRefs           any        `json:"memory_refs" doc:"Memories that were added to the prompt."`
	ParentForkToolCallID *string    `json:"parent_fork_tool_call_id" doc:"The tool call that started the sub-agent of this turn; null for the agent itself."`
	Deprecated           bool       `json:"deprecated" doc:"Excluded from the model's context by a what-if."`
	FailureReason        *string    `json:"failure_reason" doc:"The reason why the turn failed; null or empty: it did not."`
	CompactionID         *string    `json:"compaction_id" doc:"The summary."`
	SummaryPreview       *string    `json:"summary_preview" doc:"The first characters of the summary."`
	SummaryFull          *string    `json:"summary_full" doc:"The summary."`
	ArchivedCount        *int64     `json:"archived_count" doc:"Number of summarised turns."`
	TokensBefore         *int64     `json:"tokens_before" doc:"Tokens of the context before it."`
	TokensAfter          *int64     `json:"tokens_after" doc:"Tokens of the context after it."`
	SavedRatio           *float64   `json:"saved_ratio" doc:"The fraction of tokens that was saved, 0 to 1."`
	Trigger              *string    `json:"trigger" doc:"What caused the summary."`
}

// ContentPart is one part of a client's message: text, or an image or a recording by
// URL (a data URL with base64 content is allowed). The text of a recording is its
// transcript.
type ContentPart struct {
	Type     string    `json:"type"` // text, image_url or audio_url
	Text     string    `json:"text,omitempty"`
	ImageURL *ImageURL `json:"image_url,omitempty"`
	AudioURL *AudioURL `json:"audio_url,omitempty"`
}

// ImageURL is the address of an image part.
type ImageURL struct {
	URL string `json:"url"`
}

// Question is an open AskUserQuestion as `pending_questions` lists it.
type Question struct {
	ID         string          `json:"question_id" db:"id"`
	SessionID  SessionID       `json:"session_id" db:"session_id"`
	ChatID     ChatID          `json:"chat_id" db:"chat_id"`
	TurnID     TurnID          `json:"turn_id" db:"entry_id"`
	ToolCallID string          `json:"tool_call_id" db:"tool_call_id"`
	LoopID     string          `json:"loop_id" db:"loop_id"`
	Questions  json.RawMessage `json:"questions" db:"questions"`
	AskedAt    time.Time       `json:"asked_at" db:"asked_at"`
	SourceLoop *SourceLoop     `json:"source_loop,omitempty" db:"source_loop"` // nil: the main loop asks

	// How it is resolved when no user answers, and when; nil: it waits.
	ExpiresAt     *time.Time     `json:"expires_at,omitempty" db:"expires_at"`
	DefaultPolicy *DefaultPolicy `json:"default_policy,omitempty" db:"default_policy"`

	// For a permission question: the call that it blocks, and the rules that an answer for the
	// whole session adds to its setup.
	Guards *string          `json:"permission_for,omitempty" db:"guards"`
	Allows []PermissionRule `json:"-" db:"allows"`
}

// ObjectScheme marks an image or a recording of a message that is stored as an object: the rest
// of the URL is the object's name.
const ObjectScheme = "object:"

// AttachmentPath returns where clients find an image or a recording of a message: the API's
// path if it is stored as an object, else the client's URL.
func AttachmentPath(sessionID SessionID, url string) string {
	if name, kept := strings.CutPrefix(url, ObjectScheme); kept {
		return "/api/sessions/" + string(sessionID) + "/attachments/" + path.Base(name)
	}

	return url
}

var attachmentPath = regexp.MustCompile(`^/api/sessions/([0-9A-Za-z_-]{1,128})/attachments/([0-9a-f]{64})$`)

// ParseAttachmentPath is the inverse of AttachmentPath, for a picture that is sent again: it
// returns the session of the original message and the name of the object.
func ParseAttachmentPath(url string) (sessionID SessionID, name string, ok bool) {
	found := attachmentPath.FindStringSubmatch(url)
	if found == nil {
		return "", "", false
	}

	return SessionID(found[1]), found[2], true
}
