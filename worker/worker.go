// Package worker registers workflows and activities with Temporal and runs the workers
// that serve them. It holds no logic.
package worker

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"everloop/internal/durable"
	"everloop/workflows"
)

// Options tune a worker; the zero value suits one machine.
type Options struct {
	StopTimeout time.Duration // how long running tools are given at a shutdown; 0: 10 s
	Identity    string        // as operators see it; empty: process and host
	Queue       string        // the task queue to serve; empty: durable.Queue
	// BuildID makes the worker a version of the worker deployment that has the name of
	// the queue: runs of pinned workflows stay with workers of the same build. Empty:
	// the worker has no version and carries on every run that Temporal gives to none.
	BuildID string
	// CachedWorkflows is how many runs stay in memory between their workflow tasks;
	// 0: as many as before. All workers of a process share the cache.
	CachedWorkflows int

	// Context marks the context of every activity; nil: it stays as it is.
	Context func(context.Context) context.Context
	// Active counts the activities that are carried out, but for local ones; nil: they
	// are not counted.
	Active *atomic.Int64
}

// MaxActivities bounds the model calls and tools that run at once in a worker. A
// model call that waits costs little; tools have their own bound.
const MaxActivities = 1000

const heartbeatThrottle = 10 * time.Second

// New makes a worker over the client that also starts runs: only on the same
// client is a run started where it was asked for. The caller starts and stops it.
func New(c client.Client, chats Chats, opts Options) worker.Worker {
	if opts.StopTimeout == 0 {
		opts.StopTimeout = 10 * time.Second
	}

	if opts.CachedWorkflows > 0 {
		worker.SetStickyWorkflowCacheSize(opts.CachedWorkflows)
	}

	queue := cmp.Or(opts.Queue, durable.Queue)
	w := worker.New(c, queue, worker.Options{
		Identity:                           opts.Identity,
		DeploymentOptions:                  version(queue, opts.BuildID),
		WorkerStopTimeout:                  opts.StopTimeout,
		MaxConcurrentActivityExecutionSize: MaxActivities,
		// Long activities send their heartbeats themselves (durable.Heartbeat). For
		// any other, half of this is what one heartbeat may take before the SDK
		// cancels the activity.
		Interceptors:                     append(marked(opts.Context), counted(opts.Active)...),
		MaxHeartbeatThrottleInterval:     heartbeatThrottle,
		DefaultHeartbeatThrottleInterval: heartbeatThrottle,
		WorkflowTaskPollerBehavior:       pollers(),
		ActivityTaskPollerBehavior:       pollers(),
	})
	Register(w, chats)

	return w
}

// version makes the worker one of a build.
func version(deployment, buildID string) worker.DeploymentOptions {
	if buildID == "" {
		return worker.DeploymentOptions{}
	}

	return worker.DeploymentOptions{
		UseVersioning: true, Version: worker.WorkerDeploymentVersion{DeploymentName: deployment, BuildID: buildID},
	}
}

// Register binds the workflows and the activities of chats to their names.
func Register(w worker.Registry, chats Chats) {
	workflows.Register(w)

	chats.register(w)
}

// pollers are those of one kind of task: few on a worker that has little to do.
func pollers() worker.PollerBehavior {
	return worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: 4, MaximumNumberOfPollers: 32,
	})
}
