package replay

import (
	"encoding/json"

	"everloop/domain"
)

// event is the union of the payloads that decide how a script is made.
type event struct {
	TurnID     string              `json:"turn_id"`
	Role       domain.Role         `json:"role"`
	Status     string              `json:"status"`
	PatchType  string              `json:"patch_type"`
	TextDelta  string              `json:"text_delta"`
	ToolCall   *domain.ToolCall    `json:"tool_call"`
	ToolCallID string              `json:"tool_call_id"`
	QuestionID string              `json:"question_id"`
	Trigger    domain.Trigger      `json:"trigger"`
	Resumed    bool                `json:"resumed"`
	Finish     domain.FinishReason `json:"finish_reason"`
	Turn       *domain.Turn        `json:"turn"`

	Mode                 domain.Mode `json:"mode"`
	Kind                 string      `json:"kind"`
	LoopID               string      `json:"loop_id"`
	ParentForkToolCallID *string     `json:"parent_fork_tool_call_id"`
	Resolution           string      `json:"resolution"`
}

func parse(data json.RawMessage) (event, error) {
	var e event
	err := json.Unmarshal(data, &e)
	return e, err
}

// turn is the turn that the event belongs to, "" for one of the whole chat.
func (e event) turn() string {
	if e.Turn != nil {
		return e.Turn.TurnID
	}
	return e.TurnID
}

// Payloads of events that are made of the records, as the service sends them
// (decisions.md section 3).

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

type addContent struct {
	TurnID    string           `json:"turn_id"`
	PatchType string           `json:"patch_type"`
	TextDelta string           `json:"text_delta"`
	BlockType domain.BlockType `json:"block_type"`
	Offset    int              `json:"offset"`
}

type addToolCall struct {
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
}

type toolResult struct {
	TurnID     string                `json:"turn_id"`
	PatchType  string                `json:"patch_type"`
	ToolCallID string                `json:"tool_call_id"`
	Result     string                `json:"result"`
	Status     domain.ToolCallStatus `json:"status"`
	DurationMS int64                 `json:"duration_ms"`
}

type checkpointCreated struct {
	ID       string                `json:"checkpoint_id"`
	TurnID   string                `json:"turn_id"`
	BranchID string                `json:"branch_id"`
	Sequence int64                 `json:"sequence"`
	Kind     domain.CheckpointKind `json:"kind"`
	Label    string                `json:"label"`
}
