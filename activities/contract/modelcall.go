package contract

import (
	"fmt"
	"time"

	"everloop/domain"
)

// CallModelIn asks for one model call of a loop, as one assistant turn.
type CallModelIn struct {
	SessionID domain.SessionID `json:"session_id"`
	ChatID    domain.ChatID    `json:"chat_id"`
	LoopID    string           `json:"loop_id"`
	Step      int              `json:"step"`              // from 1
	TaskID    string           `json:"task_id,omitempty"` // of a background sub-agent

	Compacted  bool `json:"compacted,omitempty"`  // the history was compacted for this call, or could not be
	Overflowed bool `json:"overflowed,omitempty"` // after the server had rejected the prompt for its length
}

// Outcome says how a step ended, and so what its run does next.
type Outcome string

// Outcomes of a step. Each names the fields of CallModelOut that go with it.
const (
	// OutcomeCompleted: the model answered without a tool call. The run ends the loop.
	OutcomeCompleted Outcome = "completed"
	// OutcomeContinue: another model call follows once Calls, if any, have ended and
	// questions are resolved.
	OutcomeContinue Outcome = "continue"
	// OutcomePendingCalls: the model was not called. Calls of the turn before were held
	// back by a question and are allowed now; they run first.
	OutcomePendingCalls Outcome = "pending_calls"
	// OutcomeQueued: the model was not called. The sub-agent waits for a slot.
	OutcomeQueued Outcome = "queued"
	// OutcomeRetryLater: the model is unavailable. The same call is made again after Wait.
	OutcomeRetryLater Outcome = "retry_later"
	// OutcomeNeedsCompaction: the history is compacted, for the reason in Compact, then
	// the same call is made again.
	OutcomeNeedsCompaction Outcome = "needs_compaction"
	// OutcomeNeedsTranscription: the recordings of the turns in Recordings are transcribed,
	// then the same call is made again.
	OutcomeNeedsTranscription Outcome = "needs_transcription"
	// OutcomeStopped: the chat was stopped.
	OutcomeStopped Outcome = "stopped"
	// OutcomeLimitReached: a limit ends the loop, for Reason, which Message explains.
	OutcomeLimitReached Outcome = "limit_reached"
	// OutcomeSchemaMismatch: the last of all tries did not follow the output schema.
	OutcomeSchemaMismatch Outcome = "schema_mismatch"
	// OutcomeChatEnded: the chat has ended already, for Reason. Next reports whether
	// another one is queued.
	OutcomeChatEnded Outcome = "chat_ended"
)

// Outcomes lists all outcomes of a step.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeCompleted, OutcomeContinue, OutcomePendingCalls, OutcomeQueued, OutcomeRetryLater, OutcomeNeedsCompaction,
		OutcomeNeedsTranscription, OutcomeStopped, OutcomeLimitReached, OutcomeSchemaMismatch, OutcomeChatEnded,
	}
}

// CallModelOut is the result of a step.
type CallModelOut struct {
	EntryID domain.TurnID `json:"entry_id"`
	Outcome Outcome       `json:"outcome"`

	Calls    []ToolCall `json:"calls,omitempty"`
	Parallel int        `json:"parallel,omitempty"` // how many of the calls run at once; 0: DefaultParallelTools
	Asked    int        `json:"asked,omitempty"`    // questions put to the user

	Reason  domain.FinishReason      `json:"finish,omitempty"`
	Message string                   `json:"message,omitempty"`
	Next    bool                     `json:"next,omitempty"`
	Compact domain.CompactionTrigger `json:"compact,omitempty"`
	Wait    *Wait                    `json:"wait,omitempty"`

	Recordings []domain.TurnID `json:"recordings,omitempty"` // at most MaxRecordingTurns user turns
}

// MaxRecordingTurns bounds the turns that one step has transcribed.
const MaxRecordingTurns = 16

// DefaultParallelTools is how many tool calls of one turn run at once, unless the
// service is configured otherwise. Sub-agents have their own limit.
const DefaultParallelTools = 32

// Wait asks the run to make the same call again after a while.
type Wait struct {
	MS      int64  `json:"ms"`
	Summary string `json:"summary"` // of the timer, for operators
}

// NewWait returns the wait before a model call is repeated. Kind describes its last fault;
// empty: the fault is not known here.
func NewWait(wait time.Duration, step, faults int, kind string) *Wait {
	if kind != "" {
		kind = " (" + kind + ")"
	}

	return &Wait{
		MS:      max(wait.Milliseconds(), 1),
		Summary: fmt.Sprintf("Model unavailable: retry of model call %d after fault %d%s", step, faults, kind),
	}
}

// Duration returns how long to wait.
func (w Wait) Duration() time.Duration { return time.Duration(w.MS) * time.Millisecond }
