// Package worker plugs the activities into the workflows that decide about them
// and serves both to Temporal. It holds no logic.
package worker

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"everloop/activities"
	"everloop/activities/contract"
	"everloop/internal/durable"
	"everloop/workflows"
)

// Options tune a worker; the zero value suits one machine.
type Options struct {
	StopTimeout time.Duration // how long running tools are given at a shutdown; 0: 10 s
	Identity    string        // as operators see it; empty: process and host
	Queue       string        // the task queue to serve; empty: durable.Queue
}

// maxActivities bounds the model calls and tools that run at once in a worker. A
// model call that waits costs little; tools have their own bound.
const maxActivities = 1000

// New makes a worker over the client that also starts runs: only on the same
// client is a run begun where it was asked for. The caller starts and stops it.
func New(c client.Client, a *activities.Activities, tasks *activities.Tasks, opts Options) worker.Worker {
	if opts.StopTimeout == 0 {
		opts.StopTimeout = 10 * time.Second
	}
	w := worker.New(c, cmp.Or(opts.Queue, durable.Queue), worker.Options{
		Identity:                           opts.Identity,
		WorkerStopTimeout:                  opts.StopTimeout,
		MaxConcurrentActivityExecutionSize: maxActivities,
		// Sent often, so that a dead worker is noticed soon after its last
		// sign of life.
		MaxHeartbeatThrottleInterval:     2 * time.Second,
		DefaultHeartbeatThrottleInterval: 2 * time.Second,
		WorkflowTaskPollerBehavior:       worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{InitialNumberOfPollers: 4, MaximumNumberOfPollers: 32}),
		ActivityTaskPollerBehavior:       worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{InitialNumberOfPollers: 4, MaximumNumberOfPollers: 32}),
	})
	Register(w, a, tasks)
	return w
}

// Register binds every workflow to its name, and the activities that every worker
// has.
func Register(w worker.Registry, a *activities.Activities, tasks *activities.Tasks) {
	workflows.Register(w)

	contract.BeginChat.Handle(w, a.BeginChat)
	contract.ParkChat.Handle(w, a.ParkChat)
	contract.CheckChat.Handle(w, a.CheckChat)
	contract.FinishChat.Handle(w, a.FinishChat)
	contract.CallModel.Handle(w, a.CallModel)
	contract.CompactContext.Handle(w, a.CompactContext)
	contract.FailCompaction.Handle(w, a.FailCompaction)
	contract.PauseFork.Handle(w, a.PauseFork)
	contract.EndFork.Handle(w, a.EndFork)
	contract.TryTool.Handle(w, a.TryTool)
	contract.RunTool.Handle(w, a.RunTool)
	contract.RunTask.Handle(w, tasks.RunTask)
	contract.LoseTask.Handle(w, tasks.LoseTask)
}
