package limit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/internal/limit"
)

func TestKeyed_Try(t *testing.T) {
	t.Parallel()

	var k limit.Keyed[string]

	all, ann, bob := limit.Bound[string]{
		Key: "all",
		Max: 3,
	}, limit.Bound[string]{
		Key: "ann",
		Max: 2,
	}, limit.Bound[string]{
		Key: "bob",
		Max: 2,
	}

	first, err := k.Try(all, ann)
	require.NoError(t, err)
	second, err := k.Try(all, ann)
	require.NoError(t, err)

	var full *limit.FullError[string]

	_, err = k.Try(all, ann)
	require.ErrorAs(t, err, &full)
	require.Equal(t, "ann", full.Key)
	require.Equal(t, 2, k.Running("all"), "a refused request takes no slot of any key")

	third, err := k.Try(all, bob)
	require.NoError(t, err)

	_, err = k.Try(all, bob)
	require.ErrorAs(t, err, &full)
	require.Equal(t, "all", full.Key)

	for _, release := range []func(){first, second, third, first} {
		release() // the second time does nothing
	}

	require.Zero(t, k.Running("all"))

	for range 10 {
		_, err = k.Try(limit.Bound[string]{Key: "free"})
		require.NoError(t, err, "0 is no bound")
	}
}

func TestKeyed_Acquire_inOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k limit.Keyed[string]

		session, user := limit.Bound[string]{Key: "session", Max: 1}, limit.Bound[string]{Key: "user", Max: 2}
		release, err := k.Acquire(t.Context(), session, user)
		require.NoError(t, err)

		got := make(chan int, 3)

		for i := range 3 {
			go func() {
				release, err := k.Acquire(t.Context(), session, user)
				if err == nil {
					got <- i

					release()
				}
			}()
			synctest.Wait()
		}

		other, err := k.Acquire(t.Context(), user)
		require.NoError(t, err, "what waits for another bound holds no slot")
		other()
		release()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, []int{<-got, <-got, <-got})
		require.Zero(t, k.Running("user"))
	})
}

func TestKeyed_Acquire_contextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k limit.Keyed[string]

		one := limit.Bound[string]{Key: "a", Max: 1}
		release, err := k.Acquire(t.Context(), one)
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		var full *limit.FullError[string]

		_, err = k.Acquire(ctx, one)
		require.ErrorAs(t, err, &full)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release()

		release, err = k.Acquire(ctx, one)
		require.NoError(t, err, "a free slot needs no wait")
		release()
		require.Zero(t, k.Running("a"))
	})
}

// take acquires a slot in a goroutine, and sends its release, or closes the channel.
func take(q *limit.Queue, key string) <-chan func() {
	got := make(chan func(), 1)

	go func() {
		if release, err := q.Acquire(context.Background(), key); err == nil {
			got <- release
		}

		close(got)
	}()

	synctest.Wait()

	return got
}

func TestQueue_Acquire_sharesBetweenKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQueue(limit.QueueConfig{Slots: 4, Share: 3, Waiting: 10, Wait: time.Minute})
		first, second, third := take(q, "busy"), take(q, "busy"), take(q, "busy")
		waiting := take(q, "busy") // a quarter of the slots is for others
		require.Empty(t, waiting)

		other := <-take(q, "other")
		require.NotNil(t, other)

		late := take(q, "late")
		require.Empty(t, late)

		(<-first)() // the key that has none comes before the one that came first
		synctest.Wait()
		require.Len(t, late, 1)
		require.Empty(t, waiting)
		(<-second)()
		synctest.Wait()
		require.Len(t, waiting, 1)

		idle := q.Idle()

		for _, release := range []func(){<-third, <-waiting, <-late, other} {
			select {
			case <-idle:
				t.Error("requests still run")
			default:
			}

			release()
			release() // the second time does nothing
		}

		<-idle
		running, waits := q.Load()
		require.Zero(t, running+waits)
		require.True(t, q.Free())
	})
}

// A key that comes again and again waits for its turn like any other.
func TestQueue_Acquire_turns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQueue(limit.QueueConfig{Slots: 1, Waiting: 10})
		running := <-take(q, "a")

		var order []string

		waits := map[string]<-chan func(){}
		for _, name := range []string{"a1", "a2", "a3", "b1", "b2", "c1"} {
			waits[name] = take(q, name[:1])
		}

		for len(waits) > 0 {
			running()
			synctest.Wait()

			for name, got := range waits {
				if len(got) == 1 {
					order = append(order, name)
					running = <-got
					delete(waits, name)
				}
			}
		}

		require.Equal(t, []string{"a1", "b1", "c1", "a2", "b2", "a3"}, order)
		running()
	})
}

func TestQueue_Acquire_full(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQueue(limit.QueueConfig{Slots: 1, Waiting: 2, Wait: time.Minute})
		release := <-take(q, "a")
		first, last := take(q, "a"), take(q, "a")

		_, err := q.Acquire(t.Context(), "a")
		require.ErrorIs(t, err, limit.ErrFull)

		other := take(q, "b") // takes the place of the last request of the busy key
		_, open := <-last
		require.False(t, open)

		_, err = q.Acquire(t.Context(), "c")
		require.ErrorIs(t, err, limit.ErrFull, "each key that waits has one")

		release()
		(<-first)() // which came before the other key
		(<-other)()
		require.True(t, q.Free())
	})
}

func TestQueue_Acquire_waitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQueue(limit.QueueConfig{Slots: 1, Waiting: 2, Wait: time.Minute})
		release, err := q.Acquire(t.Context(), "a")
		require.NoError(t, err)
		_, err = q.Acquire(t.Context(), "b")
		require.ErrorIs(t, err, limit.ErrWaited)
		_, err = q.AcquireWithin(t.Context(), "b", time.Second)
		require.ErrorIs(t, err, limit.ErrWaited)

		gone := errors.New("the client is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)

		_, err = q.Acquire(ctx, "b")
		require.ErrorIs(t, err, gone)
		release()

		release, err = q.Acquire(t.Context(), "b")
		require.NoError(t, err)
		release()
		<-q.Idle()
	})
}

// Requests that give up while slots are granted lose none.
func TestQueue_concurrent(t *testing.T) {
	t.Parallel()

	const slots = 3

	q := limit.NewQueue(limit.QueueConfig{Slots: slots, Share: 2, Waiting: 20})

	var (
		k    limit.Keyed[string]
		done sync.WaitGroup
	)

	for i := range 200 {
		done.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5)*100*time.Microsecond)
			defer cancel()

			release, err := q.Acquire(ctx, fmt.Sprint("key", i%4))
			if err != nil {
				return
			}
			defer release()

			inside, err := k.Try(limit.Bound[string]{Key: "all", Max: slots})
			if err != nil {
				t.Error("more requests run than there are slots")
				return
			}

			inside()
		})
	}

	done.Wait()

	running, waiting := q.Load()
	require.Zero(t, running+waiting)
	<-q.Idle()
}

func TestBudget(t *testing.T) {
	t.Parallel()

	b := limit.NewBudget(10)
	one, other := b.Reserve(), b.Reserve()
	require.True(t, one.Grow(6))
	require.False(t, other.Grow(5))
	require.True(t, other.Grow(4))
	one.Release()
	one.Release()
	require.True(t, other.Grow(6))

	unbound := limit.NewBudget(0).Reserve()
	require.True(t, unbound.Grow(1<<40))
	unbound.Release()
}
