package replay

import (
	"encoding/json"

	"everloop/domain"
)

// event is the union of the payloads that decide how a script is made.
type event struct {
	TurnID     domain.TurnID       `json:"turn_id"`
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

// turn returns the turn that the event belongs to, "" for one of the whole chat.
func (e event) turn() domain.TurnID {
	if e.Turn != nil {
		return e.Turn.TurnID
	}

	return e.TurnID
}
