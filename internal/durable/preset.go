package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Preset is how one kind of work is scheduled, timed and retried. Contracts
// bind activities to presets; no option is set where an activity is called.
type Preset struct {
	activity workflow.ActivityOptions
	local    workflow.LocalActivityOptions
}

// Queue is the task queue of every workflow and activity. One queue lets a
// worker start an activity in the same step that scheduled it, which saves a
// round through the server; see docs/decisions/0003-one-task-queue.md.
const Queue = "everloop"

// heartbeat is the heartbeat timeout: the activity of a worker that died is given
// to another one this long after its last heartbeat. It leaves time for a database
// of Temporal that stalls for some seconds.
const heartbeat = 15 * time.Second

// Store is for one transaction and its events.
var Store = Preset{
	activity: workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	},
	local: workflow.LocalActivityOptions{
		// Long enough to wait for a connection under load: a step that is cancelled
		// costs a connection and is run again.
		StartToCloseTimeout:    10 * time.Second,
		ScheduleToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Second,
		},
	},
}

// Model is for one model call: it may think for long, and it heartbeats. Its
// attempts are those that a lost worker, a deploy or an engine that is away used
// up. Faults of the model are counted in PostgreSQL, and the run waits after them: see
// domain.ModelRetry and workflows/modelwait.go.
var Model = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 2 * time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		MaximumAttempts: ModelAttempts,
	},
}}

// ModelAttempts is how often one model call may lose its worker or an engine:
// for eight minutes and longer.
const ModelAttempts = 50

// Speech is for the transcription of the recordings of one message. Its attempts are
// those that a speech model which is unavailable used up too: for twelve minutes and
// longer.
var Speech = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 2 * time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: 30,
	},
}}

// Tool is for one tool call. The activity may be retried freely: the ledger, not
// the retry policy, prevents an effect from happening twice.
var Tool = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: ToolLimit,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
	},
}}

// ToolLimit is longer than any tool call may take, its record included: a call ends
// by its own limit, with a result that says so, and never because the activity that
// carries it has ended.
const ToolLimit = 70 * time.Minute

// Background is for work that outlives the chat that started it.
var Background = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 25 * time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
	},
}}

// Cleanup is for removing what is not needed any more: no client waits for it, and it is
// retried until it succeeds.
var Cleanup = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 30 * time.Minute,
	HeartbeatTimeout:    30 * time.Second,
	RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute},
}}

// Files is for work that brings many files from one place to another. Every
// attempt continues from what the one before it left. Such work is the only way to
// release what it has claimed, so that it is retried until it is done or an
// operator cancels it.
var Files = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
	},
}}
