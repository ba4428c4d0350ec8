// Package schedule contains scheduled tasks and their runs, with the rules for late ticks, and
// outcome contracts. Its tasks are Temporal Schedules, which determine when they are due.
package schedule

import (
	"encoding/json"
	"time"

	"everloop/domain"
	"everloop/domain/target"
)

// Overlap is what happens to a tick while an earlier run of its task is unfinished.
type Overlap string

// The overlap policies.
const (
	OverlapSkip        Overlap = "skip"         // the tick does not run
	OverlapBufferOne   Overlap = "buffer_one"   // one tick waits, later ones are merged into it
	OverlapBufferAll   Overlap = "buffer_all"   // every tick waits
	OverlapCancelOther Overlap = "cancel_other" // the earlier runs are stopped
	OverlapAllowAll    Overlap = "allow_all"    // both run
)

// Bounds of scheduled tasks.
const (
	MaxTasks    = 200    // of a user
	MaxOpenRuns = 100    // working runs of a task
	MaxRuns     = 10_000 // max stored records of a task
)

// TaskSpec is the specification of a scheduled task.
type TaskSpec struct {
	Title             string                 `json:"title" db:"title" doc:"Its title." example:"Nightly report"`
	Prompt            string                 `json:"prompt" db:"prompt" doc:"The message that each run sends." example:"Write the report of yesterday."`
	Cron              string                 `json:"cron" db:"cron" doc:"The cron expression." example:"30 2 * * *"`
	Timezone          string                 `json:"timezone" db:"timezone" doc:"The IANA time zone of the expression." example:"Europe/Berlin"`
	Enabled           bool                   `json:"enabled" db:"enabled" doc:"Whether its ticks run."`
	ExpiresAt         *time.Time             `json:"expires_at" db:"expires_at" nullable:"true" doc:"No tick at or after this time; null: no end."`
	SkipConfirmations bool                   `json:"skip_confirmations" db:"skip_confirmations" doc:"Whether questions are left to the model and permission requests are granted."`
	QuestionPolicy    *domain.QuestionPolicy `json:"question_policy,omitempty" db:"question_policy" doc:"What becomes of questions that no user answers; left out: they wait."`
	Notify            []string               `json:"notify" db:"notify" nullable:"false" doc:"Webhooks that are sent what becomes of its ticks and runs, and its questions, whatever events they list."`
	Model             *string                `json:"model" db:"model" nullable:"true" doc:"The model of its sessions; null: the service's default."`
	WorkspaceID       *string                `json:"workspace_id" db:"workspace_id" nullable:"true" doc:"The production workspace whose members may read the task, its runs and its sessions, if its owner is a member of it; null: none." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Persistent        bool                   `json:"persistent" db:"persistent" doc:"Whether all runs use one session."`
	Overlap           Overlap                `json:"overlap" db:"overlap" enum:"skip,buffer_one,buffer_all,cancel_other,allow_all" doc:"What becomes of a tick while an earlier run is not over."`
	CatchupWindowS    int                    `json:"catchup_window_s" db:"catchup_window_s" doc:"Seconds for which a late tick still runs." example:"3600"`
	PauseAfter        int                    `json:"pause_on_failure_after" db:"pause_on_failure_after" doc:"Failed runs in a row after which the task is disabled; 0: never." example:"5"`
	JitterS           int                    `json:"jitter_s" db:"jitter_s" doc:"Up to how many seconds after its time a tick runs." example:"0"`
	Budget            *domain.Budget         `json:"budget,omitempty" db:"budget" doc:"The budget of each session; left out: unbounded."`
	OutputSchema      json.RawMessage        `json:"output_schema" db:"output_schema" doc:"JSON Schema that the result of a run must follow; null: none."`
	Files             []string               `json:"files" db:"files" nullable:"false" doc:"Patterns of files that must exist in the workspace after a run." example:"[\"report/*.md\"]"`
	Commands          []string               `json:"commands" db:"commands" nullable:"false" doc:"Commands that must end with exit code 0 after a run." example:"[\"make test\"]"`
	Setup
}

// Task starts its target at planned times.
type Task struct {
	ID      string `json:"id" db:"id" doc:"The scheduled task." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	OwnerID string `json:"owner_id" db:"owner_id" doc:"The user whose task it is." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	TaskSpec
	CronText string `json:"cron_text" db:"-" doc:"The cron expression in words; empty: its times were edited in Temporal, and no expression has them." example:"At 02:30"`

	SessionID           *domain.SessionID `json:"session_id" db:"session_id" nullable:"true" doc:"The session of all runs of a persistent task; null: there is none yet."`
	NextRunAt           *time.Time        `json:"next_run_at" db:"next_run_at" nullable:"true" doc:"Time of the next tick, without its jitter; null: there is none."`
	LastRunAt           *time.Time        `json:"last_run_at" db:"last_run_at" nullable:"true" doc:"Time at which a run was last begun; null: never."`
	LastStatus          *string           `json:"last_status" db:"last_status" nullable:"true" enum:"running,completed,failed" doc:"Status of the run that began or ended last; null: none did."`
	ConsecutiveFailures int               `json:"consecutive_failures" db:"consecutive_failures" doc:"Failed runs since the last completed one or the last start." example:"0"`
	PausedReason        *string           `json:"paused_reason" db:"paused_reason" nullable:"true" doc:"Why the service disabled the task; null: it did not."`
	CreatedAt           time.Time         `json:"created_at" db:"created_at" doc:"Time of its creation."`
	UpdatedAt           time.Time         `json:"updated_at" db:"updated_at" doc:"Time of its last change."`
}

// NotOwnerOfTask is the error for a change of a scheduled task that the user may only see.
func NotOwnerOfTask() *domain.Error {
	return domain.Newf(domain.Forbidden, "forbidden", "only the owner of the scheduled task may change it")
}

// TickOutcome is the result of a tick.
type TickOutcome string

// The outcomes of a tick.
const (
	TickFired     TickOutcome = "fired"     // it ran in time
	TickCaughtUp  TickOutcome = "caught_up" // it ran late, within the catch-up window
	TickMissed    TickOutcome = "missed"    // it was found after the catch-up window
	TickSkipped   TickOutcome = "skipped"   // an earlier run was unfinished
	TickCoalesced TickOutcome = "coalesced" // merged into an earlier tick that waits
	TickBlocked   TickOutcome = "blocked"   // its message was rejected
)

// Reason codes of scheduled runs, in addition to finish reasons of chats and error codes.
const (
	ReasonRunNow          = "run_now"
	ReasonPreviousActive  = "previous_run_active"
	ReasonPreviousWaiting = "previous_run_waiting"
	ReasonTooManyRuns     = "too_many_runs"
	ReasonLate            = "service_was_late"
	ReasonWindowOver      = "catchup_window_over"
	ReasonSessionDeleted  = "session_deleted"
	ReasonOutcomeNotMet   = "outcome_not_met"
	ReasonPaused          = "paused"
	ReasonBackfilled      = "backfilled"
	ReasonCancelledByNext = domain.ReasonCancelled
)

// Run is the record of one tick, or of one requested run.
type Run struct {
	ID           string            `json:"id" db:"id" doc:"The run." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	TaskID       string            `json:"task_id" db:"task_id" doc:"The scheduled task." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	SessionID    *domain.SessionID `json:"session_id" db:"session_id" nullable:"true" doc:"Its session; null: it has none (yet)."`
	Status       domain.RunStatus  `json:"status" db:"status" enum:"running,completed,failed" doc:"Its status."`
	Outcome      TickOutcome       `json:"outcome" db:"outcome" enum:"fired,caught_up,missed,skipped,coalesced,blocked" doc:"What became of the tick."`
	ReasonCode   *string           `json:"reason_code" db:"reason_code" nullable:"true" doc:"Why it has this outcome, such as run_now; where there is no reason for that, the error_code. Null: there is nothing to say." example:"previous_run_active"`
	ErrorCode    *string           `json:"error_code" db:"error_code" nullable:"true" doc:"Why it failed: the error code or finish reason of its chat, outcome_not_met and the like; null: it did not, or nothing ran." example:"schema_mismatch"`
	Error        *string           `json:"error" db:"error" nullable:"true" doc:"Why it failed, in words; null: it did not."`
	ScheduledFor time.Time         `json:"scheduled_for" db:"scheduled_for" doc:"Time of the tick, without its jitter."`
	TriggeredAt  time.Time         `json:"triggered_at" db:"triggered_at" doc:"Time at which the tick was taken."`
	FinishedAt   *time.Time        `json:"finished_at" db:"finished_at" nullable:"true" doc:"Time of its end; null: it is not over."`
	DriftMS      int64             `json:"drift_ms" db:"drift_ms" doc:"Milliseconds from scheduled_for, with its jitter, to the start of the run, or to triggered_at where nothing ran." example:"240"`
	Usage        domain.Usage      `json:"usage" db:"-" doc:"What its chat has used."`
	Started      *target.Started   `json:"started" db:"started" doc:"What it has started; null: nothing (yet)."`
	Checks       []RunCheck        `json:"checks" db:"checks" nullable:"false" doc:"What was found of the outcome contract of the task; empty: it has none, or the chat was not completed."`
	Attempt      int               `json:"attempt" db:"attempt" doc:"How often its chat was taken up; above 1 after a crash." example:"1"`
}

// CalendarEntry is one due time of a task.
type CalendarEntry struct {
	TaskID      string      `json:"task_id" doc:"The scheduled task." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Title       string      `json:"title" doc:"Its title." example:"Nightly report"`
	Occurrences []time.Time `json:"occurrences" nullable:"false" doc:"The times at which it is due, the earliest first; at most 1,000."`
	Truncated   bool        `json:"truncated" doc:"Whether there are more."`
}

// CronPreview describes a cron expression and its next due times.
type CronPreview struct {
	CronText     string        `json:"cron_text" doc:"The expression in words." example:"At 02:30"`
	Timezone     string        `json:"timezone" doc:"The time zone of the expression." example:"Europe/Berlin"`
	Occurrences  []time.Time   `json:"occurrences" nullable:"false" doc:"The next times at which it is due, the earliest first."`
	ClockChanges []ClockChange `json:"clock_changes" nullable:"false" doc:"The days of these times on which clocks leave out or repeat times of the expression."`
}

// ClockChange is a day on which the clocks of a time zone skip or repeat times of an
// expression.
type ClockChange struct {
	Date string `json:"date" doc:"The day." format:"date" example:"2026-03-29"`
	Kind string `json:"kind" enum:"left_out,repeated" doc:"What the clocks do with the times from from to to, without to."`
	From string `json:"from" doc:"The first of these times." example:"02:00"`
	To   string `json:"to" doc:"The end of these times." example:"03:00"`
}

// ChatWaiter is a workflow that waits for the end of a chat.
type ChatWaiter = domain.ChatWaiter

// TickPlan lists the actions to take after ticks or runs were recorded.
type TickPlan struct {
	TaskID string
	Stop   []domain.RunChat // chats to stop
	Cancel []target.Started // DAG runs, and issues whose runs are to be cancelled
	Push   bool             // the Schedule needs an update
}

// MessageID returns the client_message_id of the message of a run. A repeated backfill of a
// tick has another execution.
func MessageID(runID, execution string) string { return "schedule-run/" + runID + "/" + execution }

// RunStart is the workflow run that executes a scheduled run.
type RunStart struct {
	RunID     string
	Execution string
	StartedAt time.Time  // of the workflow
	Due       *time.Time // with the jitter; nil: the nominal time
	Resumed   bool       // the workflow was restarted for a record
}

// ClaimedRun is a scheduled run to execute.
type ClaimedRun struct {
	RunID     string
	Execution string           // the execution that started it
	Ended     bool             // there is no work left
	Cancelled bool             // it ended now, before the record of what it may have started
	Begun     bool             // its target was started
	SessionID domain.SessionID // empty: its target starts no chat
	OwnerID   string
	TaskID    string
	Task      TaskSpec
	Tick      Tick
}
