// Package operator contains workflow runs of every kind as administrators see them: why one
// waits, and the possible actions. It does not execute actions.
package operator

import (
	"time"

	"everloop/domain"
)

// Run is a workflow run as administrators see it, with the database's record of its work.
type Run struct {
	WorkflowID    string           `json:"workflow_id" doc:"The workflow." example:"session/01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	RunID         string           `json:"run_id" doc:"The run of the workflow engine; empty: there is none." example:"01a1ff63-401e-74c3-83a6-fdd31ba7e12c"`
	Type          string           `json:"type" doc:"Type of the workflow, as Chat or DAGRun." example:"Chat"`
	Kind          string           `json:"kind" enum:"chat,fork,task,compaction,replay,history,import,archive,deletion,schedule,issue,dag,trigger" doc:"What it carries."`
	Status        string           `json:"status" enum:"running,completed,failed,canceled,terminated,continued_as_new,timed_out,lost" doc:"Its status; lost: the database has open work, and no workflow is open that carries it."`
	ChatStatus    string           `json:"chat_status" doc:"Of a chat: what it is about; else empty." example:"awaiting_answer"`
	SessionID     domain.SessionID `json:"session_id" doc:"The session; empty: none yet, or none at all." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	OwnerID       string           `json:"owner_id" doc:"The owner." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	BuildID       string           `json:"build_id" doc:"Build of the workers that carried on the run last; empty: workers without a version." example:"2611.0.0-b92b24adeb9c"`
	StartedAt     time.Time        `json:"started_at" doc:"Start time."`
	ClosedAt      *time.Time       `json:"closed_at" nullable:"true" doc:"End time; null while it is running."`
	HistoryEvents int64            `json:"history_events" doc:"Counted when the run has closed; 0 before." example:"0"`
	HistoryBytes  int64            `json:"history_bytes" doc:"Counted when the run has closed; 0 before." example:"0"`
	Work          *Job             `json:"work" doc:"Its work in the database; null: there is none, or it was deleted."`
	Actions       []RunAction      `json:"actions" nullable:"false" enum:"cancel,force_fail,resume" doc:"What may be done with it now."`
}

// Job is the database's record of the work of a run.
type Job struct {
	_ struct{} `nullable:"true"`

	WorkflowID string    `json:"-"`
	Open       bool      `json:"open" doc:"The work is not over."`
	Status     string    `json:"status" doc:"Its status in the database: of a chat running, parked or ended; else as its own operations show it." example:"running"`
	PartOf     string    `json:"part_of" doc:"What it is part of: the scheduled task, issue, production solution or chat; empty: nothing." example:""`
	CreatedAt  time.Time `json:"created_at" doc:"Creation time."`
	Waiting    RunWait   `json:"waiting" doc:"Why it makes no progress."`

	SessionID domain.SessionID `json:"-"`
	OwnerID   string           `json:"-"`
	Detail    string           `json:"-"` // loop of a background sub-agent, or kind of a history operation
}

// RunWait is the condition that a run waits for.
type RunWait struct {
	Reason string     `json:"reason" enum:"none,model,model_unavailable,rate_limit,tool,question,permission,child,slot,budget,queued,worker_missing,timer" doc:"Why it waits; none: it works, or is over."`
	On     string     `json:"on" enum:"user,run,model,worker,time," doc:"On whom it waits; empty: on none of these."`
	ID     string     `json:"id" doc:"The user, the workflow of the run, or the model; empty: it has none." example:"session/01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Since  *time.Time `json:"since" nullable:"true" doc:"Since when; null: it does not wait, or this is not recorded."`
	Until  *time.Time `json:"until" nullable:"true" doc:"When it continues by itself; null: that is not known."`
}

// RunAction is an action of an operator on a run.
type RunAction string

// Actions on runs. RunResume closes the workflow and starts one that continues from the stored
// state.
const (
	RunCancel    RunAction = "cancel"
	RunForceFail RunAction = "force_fail"
	RunResume    RunAction = "resume"
)

// RunLost is the status of open work without a workflow.
const RunLost = "lost"

// Kinds of runs.
const (
	RunKindChat       = "chat"
	RunKindFork       = "fork"
	RunKindTask       = "task"
	RunKindCompaction = "compaction"
	RunKindReplay     = "replay"
	RunKindHistory    = "history"
	RunKindImport     = "import"
	RunKindArchive    = "archive"
	RunKindDeletion   = "deletion"
	RunKindSchedule   = "schedule"
	RunKindIssue      = "issue"
	RunKindDAG        = "dag"
	RunKindTrigger    = "trigger"
)

// RunKinds are all kinds of runs, in alphabetical order.
var RunKinds = []string{
	RunKindArchive, RunKindChat, RunKindCompaction, RunKindDAG, RunKindDeletion, RunKindFork, RunKindHistory, RunKindImport,
	RunKindIssue, RunKindReplay, RunKindSchedule, RunKindTask, RunKindTrigger,
}

// RunQuery selects runs; empty fields match everything. Page is the next page token of an
// earlier response.
type RunQuery struct {
	Status, Kind string
	SessionID    domain.SessionID
	OwnerID      string
	Page         []byte
	Limit        int
}
