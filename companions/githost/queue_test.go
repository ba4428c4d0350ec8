package githost

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// take acquires a slot in a goroutine, and sends its release.
func (q *queue) take(key string) <-chan func() {
	got := make(chan func(), 1)

	go func() {
		if release, err := q.acquire(context.Background(), key); err == nil {
			got <- release
		}

		close(got)
	}()

	synctest.Wait()

	return got
}

func TestQueue_acquire_sharesBetweenKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4, time.Minute)
		first, second, third := q.take("busy"), q.take("busy"), q.take("busy")
		waiting := q.take("busy") // a quarter of the slots is for others
		require.Empty(t, waiting)

		other := <-q.take("other")
		require.NotNil(t, other)

		late := q.take("late")
		require.Empty(t, late)

		(<-first)() // the key that has none comes before the one that came first
		synctest.Wait()
		require.Len(t, late, 1)
		require.Empty(t, waiting)
		(<-second)()
		synctest.Wait()
		require.Len(t, waiting, 1)

		for _, release := range []func(){<-third, <-waiting, <-late, other} {
			release()
			release() // the second time does nothing
		}

		require.Equal(t, 4, q.free)
		require.Empty(t, q.running)
	})
}

func TestQueue_acquire_boundsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, time.Minute)
		release, err := q.acquire(t.Context(), "a")
		require.NoError(t, err)
		_, err = q.acquire(t.Context(), "b")
		require.ErrorContains(t, err, "too many git requests at once")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err = q.acquire(ctx, "b")
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, q.waiting)
		release()
		release, err = q.acquire(t.Context(), "b")
		require.NoError(t, err)
		release()
	})
}
