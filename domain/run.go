package domain

import "time"

// SessionRun is what the run of a session is started with, for operators to
// find it by.
type SessionRun struct {
	SessionID  string
	OwnerID    string
	SolutionID string
	Title      string
	Model      *string
}

// RunState is what became of a durable run.
type RunState int

// A run that is open and healthy, one whose decisions keep failing, one that has
// closed, and one that the engine does not know.
const (
	RunOpen RunState = iota
	RunStuck
	RunClosed
	RunUnknown
)

// OpenChat is a chat that the records hold to be running or waiting for an
// answer, and the run that should carry it.
type OpenChat struct {
	ChatID     string    `db:"id"`
	SessionID  string    `db:"session_id"`
	State      string    `db:"state"`
	WorkflowID string    `db:"workflow_id"`
	RunID      string    `db:"run_id"`
	StartedAt  time.Time `db:"started_at"`
}
