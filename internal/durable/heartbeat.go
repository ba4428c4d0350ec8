package durable

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// ErrAttemptLost is the cause of an attempt that the server has abandoned: its heartbeats did not
// arrive in time, an operator paused or reset the activity, or its run has closed. Another
// attempt may have started.
var ErrAttemptLost = errors.New("the server has given up this attempt")

const (
	// heartbeatEvery allows two failed heartbeats before the server times the attempt out.
	heartbeatEvery = heartbeat / 3
	// heartbeatLimit is the timeout of one heartbeat. The SDK uses half of it for the request and
	// its retries.
	heartbeatLimit = 10 * time.Second
)

// Heartbeat sends heartbeats until stop is called. The returned context has the values of ctx and
// is cancelled only when the attempt has ended: its run cancelled it, it timed out, the worker
// has shut down, or the attempt is lost (ErrAttemptLost). A heartbeat that cannot be delivered
// does not cancel it.
//
// The heartbeats of the SDK (activity.RecordHeartbeat) are not used because they cancel the
// activity's context after the first failed request.
func Heartbeat(ctx context.Context) (attempt context.Context, stop func()) {
	attempt, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })

	done := make(chan struct{})
	go func() {
		defer close(done)

		beat := time.NewTicker(heartbeatEvery)
		defer beat.Stop()

		for {
			select {
			case <-attempt.Done():
				return
			case <-beat.C:
				end := endOf(sendHeartbeat(attempt))
				if end == nil {
					continue
				}

				cancel(end)

				if temporal.IsCanceledError(end) {
					// The SDK accepts a cancelled result only if it has received the cancellation
					// itself.
					activity.RecordHeartbeat(context.WithoutCancel(ctx))
				}
			}
		}
	}()

	return attempt, func() {
		unlink()
		cancel(nil)
		<-done
	}
}

func sendHeartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()

	return activity.GetClient(ctx).RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken)
}

// endOf returns why the attempt has ended, from the result of a heartbeat; nil: it continues.
// Only a response of the server ends an attempt.
func endOf(err error) error {
	if canceled, ok := errors.AsType[*temporal.CanceledError](err); ok {
		return canceled
	}

	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return ErrAttemptLost
	}

	if errors.Is(err, activity.ErrActivityPaused) || errors.Is(err, activity.ErrActivityReset) {
		return ErrAttemptLost
	}

	return nil
}
