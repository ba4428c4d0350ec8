package durable

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"
)

// ErrStopped is the cause of work that a user stopped.
var ErrStopped = errors.New("the chat was stopped")

// UntilInterrupted returns a context for the work of an activity. The context ends with the
// cause ErrStopped when stopped receives, and with the cause ErrDraining when the worker has
// been stopping for the grace period. The caller calls abort when the work has finished.
func UntilInterrupted(
	ctx context.Context, stopped <-chan struct{}, grace time.Duration,
) (working context.Context, abort context.CancelCauseFunc) {
	working, abort = context.WithCancelCause(ctx)
	go interrupt(working, stopped, activity.GetWorkerStopChannel(ctx), grace, abort)

	return working, abort
}

// interrupt aborts work when it is stopped, or when the grace period after the worker's stop
// signal has expired. The aborts of a worker are spread over the last quarter of the period, so
// that the model server does not receive all repetitions at the same time.
func interrupt(
	working context.Context, stopped, stopping <-chan struct{}, grace time.Duration, abort context.CancelCauseFunc,
) {
	select {
	case <-stopped:
		abort(ErrStopped)
		return
	case <-working.Done():
		return
	case <-stopping:
	}

	expired := time.NewTimer(grace - rand.N(grace/4+1))
	defer expired.Stop()

	select {
	case <-stopped:
		abort(ErrStopped)
	case <-expired.C:
		abort(ErrDraining)
	case <-working.Done():
	}
}

// Stopping reports whether the worker of the activity is stopping.
func Stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}
