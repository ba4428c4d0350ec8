package events

import (
	"math"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// powerCut lets the server lose what was published since the copy of its files was taken.
func (e *engine) powerCut(copied string) {
	e.t.Helper()
	e.Stop()
	e.restore(copied)
	e.Start()
}

// No process that has seen the lost end is there any more, and none has saved it.
func TestOpen_afterAPowerCut(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 0))
	flushed := e.copyData()

	var lost uint64
	for n := 1; n < 8; n++ {
		lost = publish(t, l, patch("s1", n))
	}

	l.nc.Close()
	e.powerCut(flushed)

	for range 3 { // those that start later find nothing new
		l = e.open(Config{HighWater: seq})
	}

	require.Equal(t, []string{"EVENTS", "EVENTS_2"}, streams(t, l))
	require.Greater(t, publish(t, l, patch("s1", 8)), lost)
	require.Equal(t, []int{0, 8}, numbers(t, readAll(t, l, "s1", 0, math.MaxUint64)))

	first, _, err := l.Kept(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, seq, first, "the log is whole for all who have not seen the lost end")

	for seq, missed := range map[uint64]bool{seq - 1: false, seq: false, seq + 1: true, lost: true, l.HighWater(): false} {
		require.Equal(t, missed, l.Missed(seq), "%d", seq)
	}

	// A process that has seen the lost end connects last.
	e.open(Config{HighWater: lost})

	first, _, err = l.Kept(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, l.newest().base, first)
}

// Processes outlive NATS, and the first to publish afterwards has not seen the numbers
// that another one has shown to clients.
func TestLog_Publish_afterAPowerCutOfNATS(t *testing.T) {
	e := newEngine(t)
	writer, other := e.open(Config{}), e.open(Config{})
	publish(t, writer, patch("s1", 0))
	flushed := e.copyData()

	var lost uint64
	for n := 1; n < 8; n++ {
		lost = publish(t, other, patch("s1", n))
	}

	e.powerCut(flushed)
	require.Greater(t, publish(t, writer, patch("s1", 8)), lost)

	seq, err := writer.PublishDelta(t.Context(), patch("s1", 9))
	require.NoError(t, err)
	require.Greater(t, seq, lost)

	for _, l := range []*Log{writer, other, e.open(Config{})} {
		require.Equal(t, []int{0, 8, 9}, numbers(t, readAll(t, l, "s1", 0, math.MaxUint64)))
	}
}

// NATS restarts while processes publish and follow: each event is in the log once, and
// each follower gets it once. Processes that start later find nothing new.
func TestLog_restartsOfNATSUnderLoad(t *testing.T) {
	e := newEngine(t)
	reader := e.open(Config{})
	f := countTail(t, reader)

	const writers, events = 4, 60

	var wg sync.WaitGroup

	halfway := make(chan struct{}, writers)

	want := map[int]int{}
	for w := range writers {
		l := e.open(Config{})
		for n := range events {
			want[w*events+n] = 1
		}

		wg.Go(func() {
			for n := range events {
				event := patch("s"+strconv.Itoa(w), w*events+n)
				if n%2 == 0 {
					event.ID = domain.NewID()
				}

				publish(t, l, event)

				if n == events/3 || n == 2*events/3 {
					halfway <- struct{}{}
				}
			}
		})
	}

	for late := 1000; late < 1002; late++ {
		<-halfway
		e.Stop()
		e.Start()
		publish(t, e.open(Config{}), patch("late", late))
		want[late] = 1
	}

	for range 2*writers - 2 {
		<-halfway
	}

	wg.Wait()

	late := e.open(Config{})
	names := streams(t, late)

	for w := range writers {
		session := domain.SessionID("s" + strconv.Itoa(w))
		require.Len(t, numbers(t, readAll(t, late, session, 0, math.MaxUint64)), events)
	}

	f.await(t, want)
	require.LessOrEqual(t, len(names), 3)

	e.open(Config{})
	require.Equal(t, names, streams(t, late))
}

// Generations that never had an event do not pile up, and hide no loss.
func TestOpen_manyRestartsWithoutEvents(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 0))

	for range 5 {
		e.Stop()
		e.Start()

		l = e.open(Config{HighWater: seq})
		require.LessOrEqual(t, len(streams(t, l)), 2)
	}

	first, _, err := l.Kept(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, seq, first)
	require.False(t, l.Missed(seq))
	require.True(t, l.Missed(seq+1))
	publish(t, l, patch("s1", 1))
	require.Equal(t, []int{0, 1}, numbers(t, readAll(t, l, "s1", 0, math.MaxUint64)))
}
