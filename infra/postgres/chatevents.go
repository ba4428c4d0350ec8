package postgres

import (
	"encoding/json"
	"time"

	"everloop/domain"
)

// Payloads of the chat and turn events (decisions.md section 3); the envelope
// fields are added where the event leaves the service.

type chatStart struct {
	Mode     domain.Mode    `json:"mode"`
	Headless bool           `json:"headless"`
	Trigger  domain.Trigger `json:"trigger"`
	Resumed  bool           `json:"resumed"`
}

type chatEnd struct {
	Status       string              `json:"status"`
	FinishReason domain.FinishReason `json:"finish_reason"`
	Usage        domain.Usage        `json:"usage"`
	Steps        int                 `json:"steps"`
	DurationMS   int64               `json:"duration_ms"`
	Result       json.RawMessage     `json:"result,omitempty"`
	Error        *chatError          `json:"error,omitempty"`
}

type chatError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

type turnStart struct {
	TurnID               string            `json:"turn_id"`
	Sequence             int64             `json:"sequence"`
	Role                 domain.Role       `json:"role"`
	Status               domain.TurnStatus `json:"status"`
	LoopID               string            `json:"loop_id"`
	Kind                 string            `json:"kind"`
	Model                string            `json:"model"`
	StartedAt            time.Time         `json:"started_at"`
	ParentForkToolCallID *string           `json:"parent_fork_tool_call_id"`
	Blocks               []domain.Block    `json:"blocks"`
}

type turnEnd struct {
	TurnID        string            `json:"turn_id"`
	Status        domain.TurnStatus `json:"status"`
	Usage         domain.Usage      `json:"usage"`
	DurationMS    int64             `json:"duration_ms"`
	FailureReason string            `json:"failure_reason,omitempty"`
}

type toolResultPatch struct {
	TurnID     string                `json:"turn_id"`
	PatchType  string                `json:"patch_type"`
	ToolCallID string                `json:"tool_call_id"`
	Result     string                `json:"result"`
	Status     domain.ToolCallStatus `json:"status"`
	DurationMS int64                 `json:"duration_ms"`
}

type addToolCallPatch struct {
	TurnID    string      `json:"turn_id"`
	PatchType string      `json:"patch_type"`
	ToolCall  patchedCall `json:"tool_call"`
}

type patchedCall struct {
	ID          string                `json:"id"`
	ToolName    string                `json:"tool_name"`
	DisplayName string                `json:"display_name"`
	Arguments   string                `json:"arguments"`
	Status      domain.ToolCallStatus `json:"status"`

	PendingQuestionRef *domain.PendingQuestionRef `json:"pending_question_ref,omitempty"` // of a question
}
