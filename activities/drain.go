package activities

import (
	"context"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"

	"everloop/internal/durable"
)

// untilInterrupted returns a context that ends, with the cause errStopped or
// durable.ErrDraining, when the loop is stopped, or when the worker has been stopping for
// DrainTime. The caller ends it.
func (a *Activities) untilInterrupted(ctx context.Context, stopped <-chan struct{}) (context.Context, context.CancelCauseFunc) {
	working, abort := context.WithCancelCause(ctx)
	go interrupt(working, stopped, activity.GetWorkerStopChannel(ctx), a.DrainTime, abort)

	return working, abort
}

// interrupt aborts work when it is stopped, or when the grace period after the worker's
// stop signal has expired. The aborts of a worker are spread over the last quarter of the
// period, so that the model server does not receive all repeats in the same instant.
func interrupt(
	working context.Context, stopped, stopping <-chan struct{}, grace time.Duration, abort context.CancelCauseFunc,
) {
	select {
	case <-stopped:
		abort(errStopped)
		return
	case <-working.Done():
		return
	case <-stopping:
	}

	expired := time.NewTimer(grace - rand.N(grace/4+1))
	defer expired.Stop()

	select {
	case <-stopped:
		abort(errStopped)
	case <-expired.C:
		abort(durable.ErrDraining)
	case <-working.Done():
	}
}

// stopping reports whether the worker of the activity is being stopped.
func stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}
