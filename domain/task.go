package domain

import "time"

// TaskKind is the kind of a background task.
type TaskKind string

// The kinds of background tasks (docs/rest.md#tasks).
const (
	TaskShell TaskKind = "shell"
	TaskAgent TaskKind = "agent"
)

// InitTaskTitle is the title of the background task that runs the init script of a
// session.
const InitTaskTitle = "Init script"

// InitTaskID is the background task of the init script of a session.
func InitTaskID(sessionID SessionID) string { return "init_" + string(sessionID) }

// InitTaskScript is the file of the workspace that an init script is written to.
func InitTaskScript(taskID string) string { return ".everloop/tasks/" + taskID + ".sh" }

// InitTaskCommand is the displayed command of an init script.
func InitTaskCommand(taskID string) string { return "bash " + InitTaskScript(taskID) }

// InitTaskOutput is the workspace file with the output of an init script.
func InitTaskOutput(taskID string) string { return ".everloop/tasks/" + taskID + ".log" }

// TaskStatus is the status of a background task. running → completed, failed, stopped (on
// request) or lost (its worker died with it).
type TaskStatus string

// The states of a background task.
const (
	TaskRunning   TaskStatus = "running"
	TaskCompleted TaskStatus = "completed"
	TaskFailed    TaskStatus = "failed"
	TaskStopped   TaskStatus = "stopped"
	TaskLost      TaskStatus = "lost"
)

// BackgroundTask is work that outlives the chat that started it.
type BackgroundTask struct {
	TaskID         string     `json:"task_id" db:"id" doc:"The task." example:"bg_01a1ff63-3955-73c7-96c8-5877d8685ba3"`
	SessionID      SessionID  `json:"session_id" db:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Kind           TaskKind   `json:"kind" db:"kind" enum:"shell,agent" doc:"The type."`
	Title          string     `json:"title" db:"title" doc:"The title." example:"echo started; sleep 60"`
	Command        *string    `json:"command" db:"command" doc:"The command." example:"echo started; sleep 60"`
	Status         TaskStatus `json:"status" db:"status" enum:"running,completed,failed,stopped,lost" doc:"Its status."`
	PID            *int       `json:"pid" db:"pid" doc:"Id of its process; null: none." example:"13040"`
	ExitCode       *int       `json:"exit_code" db:"exit_code" doc:"Exit code; null while it is running."`
	Reason         *string    `json:"reason" db:"reason" doc:"The reason."` // why it failed or was lost
	StartedAt      time.Time  `json:"started_at" db:"started_at" doc:"Start time."`
	FinishedAt     *time.Time `json:"finished_at" db:"finished_at" doc:"End time; null while it is running."`
	LastOutputAt   *time.Time `json:"last_output_at" db:"last_output_at" doc:"Time of the last output; null: none."`
	OutputBytes    int64      `json:"output_bytes" db:"output_bytes" doc:"Bytes written so far." example:"0"`
	ToolCallID     *string    `json:"tool_call_id" db:"tool_call_id" doc:"The tool call." example:"call_01a1ff63-3955-73c7-96c8-5877d8685ba3"`
	ParentTaskID   *string    `json:"parent_task_id" db:"parent_task_id" doc:"The sub-agent in the background that started it; null: none."`
	OwnerRunID     string     `json:"owner_run_id" db:"owner_run_id" doc:"The run that started it." example:"01a1ff63-396d-7b47-8438-22cdb6e6a02b"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at" db:"lease_expires_at" doc:"End of the worker's lease; null: no lease."`
	StopRequested  bool       `json:"stop_requested" db:"stop_requested" doc:"Whether it was asked to stop."`
	Detached       bool       `json:"detached" db:"detached" doc:"Whether its branch was left."` // the turn that started it is not on the active branch
}

// TaskOutput is the end of the output of a background task. Markers name the stream of each
// line, `stdout` or `stderr`; empty where the two were not separated.
type TaskOutput struct {
	TaskID     string     `json:"task_id" doc:"The task." example:"bg_01a1ff63-3955-73c7-96c8-5877d8685ba3"`
	Status     TaskStatus `json:"status" enum:"running,completed,failed,stopped,lost" doc:"Its status."`
	Lines      []string   `json:"lines" doc:"The lines." example:"[\"started\"]"`
	Markers    []string   `json:"markers" doc:"The stream of each line: stdout or stderr." example:"[\"stdout\"]"`
	Tail       int        `json:"tail" doc:"Requested number of lines." example:"100"` // requested number of lines
	Truncated  bool       `json:"truncated" doc:"Whether the list is truncated."`      // earlier lines exist
	TotalLines int64      `json:"total_lines" doc:"Total number of lines." example:"1"`
	NextOffset int64      `json:"next_offset" doc:"The end of the output, in bytes." example:"13"` // bytes of output so far
}

// SessionTaskStatus is the status of one entry of the agent's own task list.
type SessionTaskStatus string

// The states of an entry of the agent's task list.
const (
	SessionTaskPending    SessionTaskStatus = "pending"
	SessionTaskInProgress SessionTaskStatus = "in_progress"
	SessionTaskCompleted  SessionTaskStatus = "completed"
	SessionTaskCancelled  SessionTaskStatus = "cancelled"
)

// SessionTask is one entry of the list that the agent maintains with TaskCreate.
type SessionTask struct {
	ID          string            `json:"id" db:"id" doc:"Its id." example:"task_01a1ff63-3932-70b9-9c19-1d90febfdbc7"`
	Subject     string            `json:"subject" db:"subject" doc:"The task to do." example:"Read the log"`
	Description string            `json:"description" db:"description" doc:"The description." example:"Commits of June"`
	Status      SessionTaskStatus `json:"status" db:"status" enum:"pending,in_progress,completed,cancelled" doc:"Its status."`
	Owner       *string           `json:"owner" db:"owner" doc:"The owner."`                                    // who does it, in the agent's words
	BlockedBy   []string          `json:"blocked_by" db:"blocked_by" doc:"Tasks that must be completed first."` // ids of entries that must be done before
	CreatedAt   time.Time         `json:"created_at" db:"created_at" doc:"Creation time."`
	UpdatedAt   time.Time         `json:"updated_at" db:"updated_at" doc:"Time of the last change."`
}

// SessionTaskChange creates or changes an entry of the task list; nil fields stay unchanged.
type SessionTaskChange struct {
	Subject     *string
	Description *string
	Status      *SessionTaskStatus
	Owner       *string
	BlockedBy   *[]string // at most MaxTaskBlockers
}

// Bounds of an entry of the task list: the entries that it can wait for, and the characters of
// its owner.
const (
	MaxTaskBlockers = 50
	MaxTaskOwner    = 200
)
