package toolrun

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// output is the live output of one call, whose event is published when the channel is closed.
type output struct {
	published chan struct{}
	waits     int
	pieces    int
}

func (o *output) of(ctx context.Context) func(stream, text string) {
	return liveOutput(ctx, func(ctx context.Context) error {
		o.waits++
		select {
		case <-o.published:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func(string, string) { o.pieces++ })
}

// A call that was taken over can have its result by then: nothing comes behind it.
func TestLiveOutput_endsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{published: make(chan struct{})}

		over, abort := context.WithCancelCause(t.Context())
		live := o.of(over)

		abort(domain.ErrFenced)
		live("stdout", "written last")
		require.Zero(t, o.pieces)
		require.Zero(t, o.waits)

		over, abort = context.WithCancelCause(t.Context())
		live = o.of(over)

		time.AfterFunc(time.Second, func() {
			abort(domain.ErrFenced)
			close(o.published)
		})
		live("stdout", "taken over while it waits for the event of its call")
		require.Zero(t, o.pieces)

		o.of(t.Context())("stdout", "of a call that goes on")
		require.Equal(t, 1, o.pieces)
	})
}

// Live output comes behind the event that shows its call; where that is late, there is none,
// and the command is delayed once.
func TestLiveOutput_comesBehindItsCall(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  int
	}{
		"soon": {time.Second, 2},
		"late": {time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &output{published: make(chan struct{})}
				live := o.of(t.Context())
				began := time.Now()
				timer := time.AfterFunc(tc.after, func() { close(o.published) })

				live("stdout", "one")
				live("stdout", "two")
				require.LessOrEqual(t, time.Since(began), progressWait)
				require.Equal(t, tc.want, o.pieces)
				require.Equal(t, 1, o.waits)
				timer.Stop()
			})
		})
	}
}
