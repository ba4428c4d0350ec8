package domain

import (
	"encoding/json"
	"time"
)

// Payloads of the events of chats, turns and checkpoints, as the service makes
// them and a replay makes them again (decisions.md section 3). The envelope's
// fields are added where an event leaves the service.

// ChatStarted is the payload of chat:start.
type ChatStarted struct {
	Mode     Mode    `json:"mode"`
	Headless bool    `json:"headless"`
	Trigger  Trigger `json:"trigger"`
	Resumed  bool    `json:"resumed"`
}

// ChatEnded is the payload of chat:end.
type ChatEnded struct {
	Status       string          `json:"status"`
	FinishReason FinishReason    `json:"finish_reason"`
	Usage        Usage           `json:"usage"`
	Steps        int             `json:"steps"`
	DurationMS   int64           `json:"duration_ms"`
	Result       json.RawMessage `json:"result,omitempty"`
	Error        *ChatError      `json:"error,omitempty"`
}

// ChatError says what a chat has failed by.
type ChatError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// TurnStarted is the payload of turn:start.
type TurnStarted struct {
	TurnID               string     `json:"turn_id"`
	Sequence             int64      `json:"sequence"`
	Role                 Role       `json:"role"`
	Status               TurnStatus `json:"status"`
	LoopID               string     `json:"loop_id"`
	Kind                 string     `json:"kind"`
	Model                string     `json:"model"`
	StartedAt            time.Time  `json:"started_at,omitzero"` // zero in a script: it is told when it is played
	ParentForkToolCallID *string    `json:"parent_fork_tool_call_id"`
	Blocks               []Block    `json:"blocks"`
}

// TurnEnded is the payload of turn:end.
type TurnEnded struct {
	TurnID        string     `json:"turn_id"`
	Status        TurnStatus `json:"status"`
	Usage         Usage      `json:"usage"`
	DurationMS    int64      `json:"duration_ms"`
	FailureReason string     `json:"failure_reason,omitempty"`
}

// AddContentPatch is the payload of a turn:patch of type add_content; Offset
// counts the UTF-16 units of the block sent before (decisions.md 8.7).
type AddContentPatch struct {
	TurnID    string    `json:"turn_id"`
	PatchType string    `json:"patch_type"`
	TextDelta string    `json:"text_delta"`
	BlockType BlockType `json:"block_type"`
	Offset    int       `json:"offset"`
}

// AddToolCallPatch is the payload of a turn:patch of type add_tool_call.
type AddToolCallPatch struct {
	TurnID    string          `json:"turn_id"`
	PatchType string          `json:"patch_type"`
	ToolCall  PatchedToolCall `json:"tool_call"`
}

// PatchedToolCall is a tool call as it is first told.
type PatchedToolCall struct {
	ID          string         `json:"id"`
	ToolName    string         `json:"tool_name"`
	DisplayName string         `json:"display_name"`
	Arguments   string         `json:"arguments"`
	Status      ToolCallStatus `json:"status"`

	PendingQuestionRef *PendingQuestionRef `json:"pending_question_ref,omitempty"` // of a question
}

// ToolResultPatch is the payload of a turn:patch of type tool_result.
type ToolResultPatch struct {
	TurnID     string         `json:"turn_id"`
	PatchType  string         `json:"patch_type"`
	ToolCallID string         `json:"tool_call_id"`
	Result     string         `json:"result"`
	Status     ToolCallStatus `json:"status"`
	DurationMS int64          `json:"duration_ms"`
}

// CheckpointCreated is the payload of checkpoint:created.
type CheckpointCreated struct {
	ID       string         `json:"checkpoint_id"`
	TurnID   string         `json:"turn_id"`
	BranchID string         `json:"branch_id"`
	Sequence int64          `json:"sequence"`
	Kind     CheckpointKind `json:"kind"`
	Label    string         `json:"label"`
}
