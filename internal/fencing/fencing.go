// Package fencing ends an attempt at some work when another attempt may have started. It does not
// depend on the work.
package fencing

import (
	"context"
	"errors"
	"time"
)

// An attempt checks every checkEvery whether it is still the latest one, and ends when it could
// not check for endAfter. Temporal starts another attempt no earlier than 10 seconds after the
// last heartbeat, so that two attempts never write files concurrently.
const (
	checkEvery = 2 * time.Second
	endAfter   = 8 * time.Second
)

// Guard returns a context that is cancelled with the cause fenced once another attempt may have
// started. check returns fenced when one has. The caller must call release.
func Guard(ctx context.Context, fenced error, check func(context.Context) error) (guarded context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)

	go func() {
		tick := time.NewTicker(checkEvery)
		defer tick.Stop()

		for confirmed := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}

			limited, done := context.WithTimeout(ctx, checkEvery)
			err := check(limited)

			done()

			switch {
			case err == nil:
				confirmed = time.Now()
			case errors.Is(err, fenced) || time.Since(confirmed) > endAfter:
				cancel(fenced)
			}
		}
	}()

	return ctx, func() { cancel(nil) }
}

// Cause returns the cause of a context's end, if it has ended, else err.
func Cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}

	return err
}
