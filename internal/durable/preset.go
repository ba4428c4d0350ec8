package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Preset contains the timeouts and the retry policy of one kind of work. Contracts bind
// activities to presets; callers set no options.
type Preset struct {
	activity workflow.ActivityOptions
	local    workflow.LocalActivityOptions
}

// Queue is the task queue of all workflows and activities. With one queue a worker can start an
// activity in the workflow task that scheduled it, which saves a round trip to the server; see
// docs/decisions/0003-one-task-queue.md.
const Queue = "everloop"

// heartbeat is the heartbeat timeout: another worker receives the activity of a dead worker this
// long after its last heartbeat. It exceeds stalls of Temporal's database of some seconds.
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
		// Long enough to wait for a database connection under load: a timed-out activity loses
		// its connection and runs again.
		StartToCloseTimeout:    10 * time.Second,
		ScheduleToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Second,
		},
	},
}

// Model is for one model call, which can take long, and heartbeats. Its attempts cover lost
// workers, deployments and unavailable engines. Faults of the model are counted in PostgreSQL,
// and the workflow waits after them: see domain.ModelRetry and workflows/modelwait.go.
var Model = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 2 * time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		MaximumAttempts: ModelAttempts,
	},
}}

// ModelAttempts is the maximum number of attempts of a model call that lost their worker or an
// engine: at least eight minutes.
const ModelAttempts = 50

// Speech is for the transcription of one message's recordings. Its attempts also cover an
// unavailable speech model: for at least twelve minutes.
var Speech = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 2 * time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: 30,
	},
}}

// Tool is for one tool call. The activity can be retried freely: the ledger, not the retry
// policy, prevents duplicate effects.
var Tool = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: ToolLimit,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
	},
}}

// ToolLimit is longer than any tool call including its record: a call ends by its own timeout,
// with a result that reports it, never by the timeout of its activity.
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

// Cleanup is for removing obsolete data: no client waits for it, and it is retried until it
// succeeds.
var Cleanup = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: 30 * time.Minute,
	HeartbeatTimeout:    30 * time.Second,
	RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute},
}}

// Files is for copying many files. Each attempt continues the previous one. Only such work can
// release its claims, so it is retried until it succeeds or an operator cancels it.
var Files = Preset{activity: workflow.ActivityOptions{
	StartToCloseTimeout: time.Hour,
	HeartbeatTimeout:    heartbeat,
	WaitForCancellation: true,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
	},
}}
