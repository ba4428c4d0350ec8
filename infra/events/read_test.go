package events

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// record publishes n events, turn edges among them, for each of two sessions
// mixed with a third one's, and gives the two sessions' sequences.
func fill(t *testing.T, l *Log, n int) (a, b []uint64) {
	random := rand.New(rand.NewPCG(1, 2))

	for i := range n {
		for _, session := range []string{"a", "b", "other"} {
			if session != "a" && random.IntN(3) > 0 {
				continue
			}

			event := patch(session, i)

			switch random.IntN(5) {
			case 0:
				event = edgeEvent(session, domain.EventTurnStart, fmt.Sprint(i))
			case 1:
				event = edgeEvent(session, domain.EventTurnEnd, fmt.Sprint(i))
			}

			seq := publish(t, l, event)

			switch session {
			case "a":
				a = append(a, seq)
			case "b":
				b = append(b, seq)
			}
		}
	}

	return a, b
}

func TestReadFromEveryPosition(t *testing.T) {
	l := newEngine(t).open(Config{})
	a, _ := fill(t, l, 120)

	end := l.HighWater()
	for after := a[0] - 2; after <= end+2; after++ {
		var want, prev []uint64

		last := uint64(0)

		for _, seq := range a {
			if seq > after {
				want, prev = append(want, seq), append(prev, last)
			}

			last = seq
		}

		var got, gotPrev []uint64

		for _, e := range readAll(t, l, "a", after, math.MaxUint64) {
			require.EqualValues(t, "a", e.SessionID)
			got, gotPrev = append(got, e.Seq), append(gotPrev, e.PrevSeq)
		}

		require.Equal(t, want, got, "after %d", after)
		require.Equal(t, prev, gotPrev, "after %d", after)
		count, err := l.Count(t.Context(), "a", after)
		require.NoError(t, err)
		require.Equal(t, len(want), count)
	}
}

func TestReadUpToEveryPosition(t *testing.T) {
	l := newEngine(t).open(Config{})

	a, _ := fill(t, l, 60)
	for upTo := a[0] - 2; upTo <= l.HighWater()+2; upTo++ {
		var want []uint64

		for _, seq := range a {
			if seq <= upTo {
				want = append(want, seq)
			}
		}

		var got []uint64
		for _, e := range readAll(t, l, "a", 0, upTo) {
			got = append(got, e.Seq)
		}

		require.Equal(t, want, got, "up to %d", upTo)
		last, err := l.LastUpTo(t.Context(), "a", upTo)
		require.NoError(t, err)

		if len(want) == 0 {
			require.Zero(t, last)
		} else {
			require.Equal(t, want[len(want)-1], last)
		}
	}
}

func TestReadOverManyBatches(t *testing.T) {
	l := newEngine(t).open(Config{})
	a, _ := fill(t, l, 3*batchMessages)

	var got []uint64
	for _, e := range readAll(t, l, "a", 0, math.MaxUint64) {
		got = append(got, e.Seq)
	}

	require.Equal(t, a, got)

	stop := errors.New("enough")
	n := 0
	err := l.Read(t.Context(), "a", 0, math.MaxUint64, func(domain.LoggedEvent) error {
		n++
		return stop
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1, n)
}

func TestReadEdges(t *testing.T) {
	l := newEngine(t).open(Config{})
	start := publish(t, l, edgeEvent("s1", domain.EventTurnStart, "t1"))
	publish(t, l, patch("s1", 1))
	end := publish(t, l, edgeEvent("s1", domain.EventTurnEnd, "t1"))
	publish(t, l, patch("s1", 2))

	var got []uint64

	collect := func(e domain.LoggedEvent) error { got = append(got, e.Seq); return nil }
	require.NoError(t, l.ReadEdges(t.Context(), "s1", 0, math.MaxUint64, collect))
	require.Equal(t, []uint64{start, end}, got)
	got = nil

	require.NoError(t, l.ReadEdges(t.Context(), "s1", 0, end-1, collect))
	require.Equal(t, []uint64{start}, got)
}

func TestQuietAndUnknownSessions(t *testing.T) {
	l := newEngine(t).open(Config{})
	for range 2 { // on an empty log, then next to others
		last, err := l.Last(t.Context(), "unknown")
		require.NoError(t, err)
		require.Zero(t, last)
		count, err := l.Count(t.Context(), "unknown", 0)
		require.NoError(t, err)
		require.Zero(t, count)
		require.Empty(t, readAll(t, l, "unknown", 0, math.MaxUint64))
		publish(t, l, patch("s1", 1))
	}
}

func TestLog_LastAt(t *testing.T) {
	l := newEngine(t).open(Config{})
	lastAt := func() time.Time {
		at, err := l.LastAt(t.Context(), "s1")
		require.NoError(t, err)

		return at
	}

	require.Zero(t, lastAt(), "it has no event")
	publish(t, l, patch("s1", 1))

	first := lastAt()
	require.WithinDuration(t, time.Now(), first, time.Minute)
	publish(t, l, patch("s2", 1))
	require.Equal(t, first, lastAt(), "events of others do not count")
	publish(t, l, patch("s1", 2))
	require.True(t, lastAt().After(first))
}
