package domain

import "time"

// SessionRun is what the run of a session is started with, for operators to
// find it by.
type SessionRun struct {
	SessionID  SessionID
	OwnerID    string
	SolutionID string
	ParentRun  string // what the session was made for, as operators search for it; empty: a user
	Model      *string
	// Open says that its run should be open, waiting or at work: it is signalled before one is started.
	Open bool
}

// RunState is the state of a workflow run.
type RunState int

// A run that is open and healthy, one whose decisions keep failing, one that has
// closed, and one that the engine does not know.
const (
	RunOpen RunState = iota
	RunStuck
	RunClosed
	RunUnknown
)

// RunLook is what was seen of the newest run of a workflow.
type RunLook struct {
	State     RunState
	RunID     string
	Cause     string // why it is not open and healthy
	Finishing bool   // of a stuck run: the end of its chat is what keeps failing
	// Terminated: an operator closed the run, and not the service itself.
	Terminated bool
}

// Restart says how often a chat has gone on in a new run without making progress.
type Restart struct {
	Running     bool   // false: the chat has ended, and nothing was counted
	Counted     bool   // false: the loss of this run was counted already
	Count       int    // lost runs since the last progress
	ForceFailed string // why an administrator fails the chat; empty: they do not
}

// OpenChat is a chat that the database holds to be running or waiting for an
// answer, and the run that should carry it.
type OpenChat struct {
	ChatID     ChatID    `db:"id"`
	SessionID  SessionID `db:"session_id"`
	State      string    `db:"state"`
	WorkflowID string    `db:"workflow_id"`
	RunID      string    `db:"run_id"`
	StartedAt  time.Time `db:"started_at"`
}

// OpenSubAgent is a sub-agent that the database holds to be at work. One in the background
// has the run of its task.
type OpenSubAgent struct {
	LoopID     string    `db:"id"`
	SessionID  SessionID `db:"session_id"`
	ChatID     ChatID    `db:"chat_id"`
	TaskID     string    `db:"task_id"` // the background task that it belongs to; empty: it ends with its chat
	Background bool      `db:"background"`
}
