// Package retry calls a function until it succeeds, with exponential backoff, and stores backoffs
// by key. It does not depend on errors: the caller decides which errors to retry, and logs them.
package retry

import (
	"context"
	"time"
)

// Backoff configures the delays between attempts.
type Backoff struct {
	First time.Duration // after the first attempt; each further delay is twice as long
	Max   time.Duration // maximum delay
	Limit time.Duration // maximum time from the first attempt to the start of the last; 0: unlimited
}

// Writes returns the backoff of database writes.
func Writes(limit time.Duration) Backoff {
	return Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second, Limit: limit}
}

// Do calls try until it succeeds, retryable returns false for its error, the limit is exceeded or
// ctx is cancelled. It returns the last error of try.
func (b Backoff) Do(ctx context.Context, try func() error, retryable func(error) bool) error {
	began := time.Now()

	for n := 0; ; n++ {
		err := try()
		if err == nil || !retryable(err) {
			return err
		}

		if b.Limit > 0 && time.Since(began) > b.Limit || !Wait(ctx, b.Pause(n)) {
			return err
		}
	}
}

// Pause returns the delay after attempt n, counted from 0.
func (b Backoff) Pause(n int) time.Duration {
	pause := b.First
	for range n {
		if pause >= b.Max {
			break
		}

		pause *= 2
	}

	return min(pause, b.Max)
}

// Wait waits for a duration. It returns false when ctx is cancelled first.
func Wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}

	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
