package domain

import "time"

// SessionRun contains the memo and search fields that the run of a session is started with, for
// operators.
type SessionRun struct {
	SessionID  SessionID
	OwnerID    string
	SolutionID string
	Model      *string
	// Open reports that its run should be open, waiting or at work: it is signalled before one
	// is started.
	Open bool
}

// RunState is what became of a durable run.
type RunState int

// In order: a run that is open and healthy, one whose workflow tasks keep failing, one that has
// closed, and one that is unknown to Temporal.
const (
	RunOpen RunState = iota
	RunStuck
	RunClosed
	RunUnknown
)

// RunLook is the observed state of the newest run of a workflow.
type RunLook struct {
	State     RunState
	RunID     string
	Cause     string // why it is not open and healthy
	Finishing bool   // of a stuck run: finishing its chat keeps failing
}

// Restart counts how often a chat has continued in a new run without progress.
type Restart struct {
	Running     bool   // false: the chat has ended, and nothing was counted
	Counted     bool   // false: the loss of this run was counted before
	Count       int    // lost runs since the last progress
	ForceFailed string // why an administrator wants the chat to fail; empty: they do not
}

// OpenChat is a chat that is running or waiting for an answer according to the database, and
// the run that should execute it.
type OpenChat struct {
	ChatID     ChatID    `db:"id"`
	SessionID  SessionID `db:"session_id"`
	State      string    `db:"state"`
	WorkflowID string    `db:"workflow_id"`
	RunID      string    `db:"run_id"`
	StartedAt  time.Time `db:"started_at"`
}

// OpenSubAgent is a sub-agent that is at work according to the database. A background sub-agent
// has the run of its task.
type OpenSubAgent struct {
	LoopID     string    `db:"id"`
	SessionID  SessionID `db:"session_id"`
	ChatID     ChatID    `db:"chat_id"`
	TaskID     string    `db:"task_id"` // of the background task that it belongs to; empty: it ends with its chat
	Background bool      `db:"background"`
}
