package events

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server comes back without its newest events after all processes died: no number is
// given twice, and the log is whole back to its first event for those who know no better.
func TestOpen_reservedNumbersAreNotGivenAgain(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 0))

	e.Stop()

	synced := e.copyData()
	e.Start()

	var lost uint64
	for n := 1; n < 8; n++ {
		lost = publish(t, l, patch("s1", n))
	}

	l.nc.Close()
	e.Stop()
	e.restore(synced)
	e.Start()

	reserved := lost + 1000
	for range 3 { // others that start then, or after them
		l = e.open(Config{HighWater: seq, Reserved: reserved})
	}

	require.Equal(t, []string{"EVENTS", "EVENTS_2"}, streams(t, l))
	require.Greater(t, publish(t, l, patch("s1", 8)), reserved)
	require.Equal(t, []int{0, 8}, numbers(t, readAll(t, l, "s1", 0, math.MaxUint64)))

	first, _, err := l.Kept(t.Context())
	require.NoError(t, err)
	require.Equal(t, seq, first)

	for seq, missed := range map[uint64]bool{seq - 1: false, seq: false, seq + 1: true, lost: true, l.HighWater(): false} {
		require.Equal(t, missed, l.Missed(seq), "%d", seq)
	}

	// A process that lived on has seen what is lost.
	reader := e.open(Config{HighWater: lost})
	first, _, err = l.Kept(t.Context())
	require.NoError(t, err)
	require.Equal(t, reader.newest().base, first)
}

// Generations that never had an event break nothing.
func TestOpen_reservedAgainAndAgain(t *testing.T) {
	e := newEngine(t)
	seq := publish(t, e.open(Config{}), patch("s1", 0))
	l := e.open(Config{Reserved: seq + 1000})
	empty := l.newest().base
	f := countTail(t, l)

	e.open(Config{Reserved: empty + 1000})
	publish(t, l, patch("s1", 1))
	f.await(t, map[int]int{1: 1}) // a process that followed the closed generation

	l = e.open(Config{})
	require.Equal(t, []string{"EVENTS", "EVENTS_2", "EVENTS_3"}, streams(t, l))

	first, _, err := l.Kept(t.Context())
	require.NoError(t, err)
	require.Equal(t, seq, first)
	require.False(t, l.Missed(seq))
	require.True(t, l.Missed(seq+1))
	require.True(t, l.Missed(empty))
}

// The server reserves the limit of each stream: closed generations keep only their size.
func TestOpen_manyGenerationsReserveTheSpaceOfOne(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{MaxBytes: 8 << 30})

	for range 40 {
		seq := publish(t, l, patch("s1", 0))
		l = e.open(Config{MaxBytes: 8 << 30, Reserved: seq + 1000})
	}

	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 40)
	require.Equal(t, int64(8<<30), l.newest().config.MaxBytes)
}
