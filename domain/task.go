package domain

import "time"

// TaskKind says what a background task is.
type TaskKind string

// The kinds of background tasks (shapes.md section 5).
const (
	TaskShell    TaskKind = "shell"
	TaskAgent    TaskKind = "agent"
	TaskSchedule TaskKind = "schedule"
	TaskPublish  TaskKind = "publish"
)

// TaskStatus is where a background task stands. running → completed, failed,
// stopped (on request) or lost (its worker died with it).
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
	TaskID         string     `json:"task_id" db:"id"`
	SessionID      string     `json:"session_id" db:"session_id"`
	Kind           TaskKind   `json:"kind" db:"kind" enum:"shell,agent,schedule,publish"`
	Title          string     `json:"title" db:"title"`
	Command        *string    `json:"command" db:"command"`
	Status         TaskStatus `json:"status" db:"status" enum:"running,completed,failed,stopped,lost"`
	PID            *int       `json:"pid" db:"pid"`
	ExitCode       *int       `json:"exit_code" db:"exit_code"`
	Reason         *string    `json:"reason" db:"reason"` // why it failed or was lost
	StartedAt      time.Time  `json:"started_at" db:"started_at"`
	FinishedAt     *time.Time `json:"finished_at" db:"finished_at"`
	LastOutputAt   *time.Time `json:"last_output_at" db:"last_output_at"`
	OutputBytes    int64      `json:"output_bytes" db:"output_bytes"`
	ToolCallID     *string    `json:"tool_call_id" db:"tool_call_id"`
	ParentTaskID   *string    `json:"parent_task_id" db:"-"`
	OwnerRunID     string     `json:"owner_run_id" db:"owner_run_id"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at" db:"lease_expires_at"`
	StopRequested  bool       `json:"stop_requested" db:"stop_requested"`
	Detached       bool       `json:"detached" db:"detached"` // the turn that started it is not on the active branch
}

// TaskOutput is the end of what a background task has written. Markers name the
// stream of each line, `stdout` or `stderr`; it is empty where the two were
// not kept apart.
type TaskOutput struct {
	TaskID     string     `json:"task_id"`
	Status     TaskStatus `json:"status" enum:"running,completed,failed,stopped,lost"`
	Lines      []string   `json:"lines"`
	Markers    []string   `json:"markers"`
	Tail       int        `json:"tail"`      // how many lines were asked for
	Truncated  bool       `json:"truncated"` // earlier lines exist
	TotalLines int64      `json:"total_lines"`
	NextOffset int64      `json:"next_offset"` // bytes of output so far
}

// SessionTaskStatus is the state of one entry of the agent's own task list.
type SessionTaskStatus string

// The states of an entry of the agent's task list.
const (
	SessionTaskPending    SessionTaskStatus = "pending"
	SessionTaskInProgress SessionTaskStatus = "in_progress"
	SessionTaskCompleted  SessionTaskStatus = "completed"
	SessionTaskCancelled  SessionTaskStatus = "cancelled"
)

// SessionTask is one entry of the list that the agent keeps with TaskCreate.
type SessionTask struct {
	ID          string            `json:"id" db:"id"`
	Subject     string            `json:"subject" db:"subject"`
	Description string            `json:"description" db:"description"`
	Status      SessionTaskStatus `json:"status" db:"status" enum:"pending,in_progress,completed,cancelled"`
	CreatedAt   time.Time         `json:"created_at" db:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at" db:"updated_at"`
}

// SessionTaskChange makes an entry of the task list, or changes one; nil fields
// stay as they are.
type SessionTaskChange struct {
	Subject     *string
	Description *string
	Status      *SessionTaskStatus
}
