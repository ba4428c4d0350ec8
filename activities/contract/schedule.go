package contract

import (
	"time"

	"everloop/domain"
	"everloop/internal/durable"
)

// WorkflowScheduledRun is the workflow type of runs of scheduled tasks, as operators see it.
const WorkflowScheduledRun = "ScheduledRun"

// ChatEnded reports to a run that waits for a chat that the chat has ended. It may come more
// than once: what has become of the chat is in the database.
var ChatEnded = durable.Signal[EndedChat]{Name: "chat_ended"}

// EndedChat names the chat; empty: any may have ended.
type EndedChat struct {
	ChatID domain.ChatID `json:"chat_id"`
}

// ScheduledRunInput names the run of a scheduled task that a workflow carries. A Schedule starts the
// workflow without it: then the id of the workflow names the run.
type ScheduledRunInput struct {
	RunID string `json:"run_id,omitempty"`
}

// BeginScheduledRunInput is a run with the workflow that starts it.
type BeginScheduledRunInput struct {
	RunID     string    `json:"run_id"`
	Execution string    `json:"execution"`
	StartedAt time.Time `json:"started_at"`
	Resumed   bool      `json:"resumed,omitempty"` // started again for its record
}

// Steps of scheduled tasks. Each may run again: the database says what is left to do.
var (
	BeginScheduledRun = durable.Activity[BeginScheduledRunInput, ScheduledRunOut]{Name: "schedule.begin", Preset: durable.Store}
	StopScheduledRun  = durable.Activity[ScheduledRunInput, struct{}]{Name: "schedule.stop", Preset: durable.Store}
	EndScheduledRun   = durable.Activity[ScheduledRunInput, ScheduledRunOut]{Name: "schedule.end", Preset: durable.Store}
)

// CheckScheduledRun checks the outcome of a run whose chat was completed, and writes the
// run's record.
var CheckScheduledRun = durable.Activity[ScheduledRunInput, ScheduledRunOut]{Name: "schedule.check", Preset: durable.Tool}

// ScheduledRunOut reports whether the run has ended, or its outcome must be checked.
type ScheduledRunOut struct {
	Ended     bool             `json:"ended,omitempty"`
	Check     bool             `json:"check,omitempty"`
	SessionID domain.SessionID `json:"session,omitempty"` // of BeginScheduledRun
}
