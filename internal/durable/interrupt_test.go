package durable

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInterrupt(t *testing.T) {
	const grace = 40 * time.Second

	closed := make(chan struct{})
	close(closed)

	for name, c := range map[string]struct {
		stopped, stopping <-chan struct{}
		after             time.Duration
		want              error
	}{
		"a worker that is being stopped lets a call continue": {stopping: closed, after: 29 * time.Second},
		"until its grace period has expired":                  {stopping: closed, after: grace, want: ErrDraining},
		"a stop has its effect in the grace period":           {stopped: closed, stopping: closed, want: ErrStopped},
		"a stop has its effect at any time":                   {stopped: closed, want: ErrStopped},
		"a call without either continues":                     {after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				working, abort := context.WithCancelCause(t.Context())
				defer abort(nil)

				go interrupt(working, c.stopped, c.stopping, grace, abort)

				<-time.After(c.after)
				synctest.Wait()
				require.Equal(t, c.want, context.Cause(working))
			})
		})
	}
}

// The aborts of many calls do not fall into the same second.
func TestInterrupt_spread(t *testing.T) {
	closed := make(chan struct{})
	close(closed)

	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ended := make(chan int)

		for range 100 {
			go func() {
				working, abort := context.WithCancelCause(context.Background())
				interrupt(working, nil, closed, 40*time.Second, abort)

				ended <- int(time.Since(began) / time.Second)
			}()
		}

		seconds := map[int]bool{}
		for range 100 {
			seconds[<-ended] = true
		}

		require.Greater(t, len(seconds), 5)
	})
}
