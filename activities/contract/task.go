package contract

import (
	"time"

	"everloop/domain"
	"everloop/internal/durable"
)

// TaskInput starts the run of one background task.
type TaskInput struct {
	TaskID    string           `json:"task_id"`
	SessionID domain.SessionID `json:"session_id"`
	OwnerID   string           `json:"owner_id"`
}

// The work of a background task, and its end when that work cannot even report.
var (
	RunTask  = durable.Activity[RunTaskIn, RunTaskOut]{Name: "task.run", Preset: durable.Background}
	LoseTask = durable.Activity[LoseTaskIn, RunTaskOut]{Name: "task.lose", Preset: durable.Store}
)

// AwaitTask waits until a background task has ended.
var AwaitTask = durable.Activity[AwaitTaskIn, RunTaskOut]{Name: "task.await", Preset: durable.Background}

// AwaitTaskIn names the task.
type AwaitTaskIn struct {
	TaskID string `json:"task_id"`
}

// RunTaskIn asks for a background task to be carried out.
type RunTaskIn struct {
	TaskID string `json:"task_id"`
	RunID  string `json:"run_id"`
}

// RunTaskOut says how the task ended.
type RunTaskOut struct {
	Status domain.TaskStatus `json:"status"`
}

// LoseTaskIn ends a task whose work is gone.
type LoseTaskIn struct {
	TaskID string `json:"task_id"`
	Reason string `json:"reason"`
}

// NewTask is a background task before it runs.
type NewTask struct {
	ID                         string
	SessionID                  domain.SessionID
	ChatID                     domain.ChatID
	ToolCallID                 string
	Kind                       domain.TaskKind
	Title, Command, OutputPath string
}

// ClaimedTask is a task as the database gave it out to run. Unless Status is
// running there is nothing to do. Attempt fences every later write.
type ClaimedTask struct {
	Status     domain.TaskStatus
	ID         string
	Attempt    int
	Command    string
	Script     string // written to a file of the workspace before, which the command runs; empty: none
	OutputPath string
	Session    domain.Session
	Held       bool // a worker that is alive runs it
}

// TaskEnd is how a background task ended.
type TaskEnd struct {
	Status       domain.TaskStatus
	ExitCode     *int
	Reason       string // why it failed or was lost; empty when there is nothing to say
	OutputBytes  int64
	LastOutputAt time.Time // zero: it wrote nothing
	Connections  []domain.Connection
}
