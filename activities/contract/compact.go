package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// WorkflowCompact is the run of one compaction that a client has asked for.
const WorkflowCompact = "Compact"

// CompactInput starts that run.
type CompactInput struct {
	SessionID    domain.SessionID `json:"session_id"`
	CompactionID string           `json:"compaction_id"`
}

// The work of a compaction, piece by piece, and its end when that work cannot
// even report.
var (
	CompactContext = durable.Activity[CompactIn, CompactOut]{Name: "context.compact", Preset: durable.Model}
	FailCompaction = durable.Activity[FailCompactionIn, CompactOut]{Name: "context.fail", Preset: durable.Store}
)

// CompactIn asks for the next piece of a compaction: of the one that it names, or
// of the one that the loop of a chat needs at its model call Step.
type CompactIn struct {
	SessionID    domain.SessionID         `json:"session_id"`
	CompactionID string                   `json:"compaction_id,omitempty"`
	ChatID       domain.ChatID            `json:"chat_id,omitempty"`
	LoopID       string                   `json:"loop_id,omitempty"`
	TaskID       string                   `json:"task_id,omitempty"` // of a background sub-agent
	Step         int                      `json:"step,omitempty"`
	Trigger      domain.CompactionTrigger `json:"trigger"`
}

// CompactOut says how the compaction stands. Exhausted: it is the second in a row
// that did not bring the context below its threshold.
type CompactOut struct {
	Status    domain.CompactionStatus `json:"status"`
	Reason    string                  `json:"reason,omitempty"` // of one that was skipped or failed
	Code      string                  `json:"code,omitempty"`   // of one that failed because its model was away for too long
	Stopped   bool                    `json:"stopped,omitempty"`
	Exhausted bool                    `json:"exhausted,omitempty"`
	Wait      *Wait                   `json:"wait,omitempty"` // the model cannot be had now
}

// FailCompactionIn ends a compaction whose work is gone.
type FailCompactionIn struct {
	CompactIn
	Reason string `json:"reason"`
}
