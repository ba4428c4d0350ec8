package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Preset is how one kind of work is scheduled, timed and tried again. Contracts
// bind activities to presets; no option is set where an activity is called.
type Preset struct {
	activity workflow.ActivityOptions
	local    workflow.LocalActivityOptions
}

// Queue is the task queue of every workflow and activity. One queue lets a
// worker begin an activity in the same step that scheduled it, which saves a
// round through the server; see docs/decisions/0003-one-task-queue.md.
const Queue = "everloop"

// heartbeat is how soon a dead worker is noticed: its activity is given to
// another one this long after its last sign of life.
const heartbeat = 10 * time.Second

// Store is for one transaction and the events that tell of it.
var Store = Preset{
	activity: workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	},
	local: workflow.LocalActivityOptions{
		StartToCloseTimeout:    2 * time.Second,
		ScheduleToCloseTimeout: 5 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Second},
	},
}

// Model is for one model call: it may think for long, it heartbeats, and it is
// tried again with backoff (decisions.md section 4).
var Model = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 2 * time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: modelFirstPause, BackoffCoefficient: 2, MaximumInterval: modelLastPause, MaximumAttempts: ModelAttempts,
	},
}}

// ModelAttempts is how often one model call is tried in all.
const ModelAttempts = 8

const (
	modelFirstPause = 500 * time.Millisecond
	modelLastPause  = 10 * time.Second
)

// ModelBackoff is the pause after the given attempt, as the Model preset has it.
func ModelBackoff(attempt int) time.Duration {
	pause := modelFirstPause
	for range attempt - 1 {
		pause = min(2*pause, modelLastPause)
	}
	return pause
}

// Tool is for one tool call. The activity may be retried freely: the ledger, not
// the retry policy, sees to it that no effect happens twice.
var Tool = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 15 * time.Minute,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
}}

// Background is for work that outlives the chat that started it.
var Background = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 25 * time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
}}
