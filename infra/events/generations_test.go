package events

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// copyData copies the files of the stopped engine.
func (e *engine) copyData() string {
	e.t.Helper()
	dir := e.t.TempDir()
	require.NoError(e.t, os.CopyFS(dir, os.DirFS(e.Dir)))

	return dir
}

// restore puts a copy instead of the stopped engine's files; none: an empty one.
func (e *engine) restore(dir string) {
	e.t.Helper()
	require.NoError(e.t, os.RemoveAll(e.Dir))

	if dir == "" {
		require.NoError(e.t, os.Mkdir(e.Dir, 0o700))
		return
	}

	require.NoError(e.t, os.CopyFS(e.Dir, os.DirFS(dir)))
}

// streams gives the names of the log's streams.
func streams(t *testing.T, l *Log) (names []string) {
	t.Helper()
	list, err := l.refresh(t.Context())
	require.NoError(t, err)

	for _, g := range list {
		names = append(names, g.name)
	}

	return names
}

// numbers returns the field n of events, and checks that each names the one before it.
func numbers(t *testing.T, list []domain.LoggedEvent) (ns []int) {
	t.Helper()

	prev := uint64(0)

	for _, e := range list {
		var n int
		require.NoError(t, parse(e.Data, &n))
		require.Equal(t, prev, e.PrevSeq, "event %d", n)
		prev, ns = e.Seq, append(ns, n)
	}

	return ns
}

func parse(data []byte, n *int) error {
	_, err := fmt.Sscanf(string(data), `{"turn_id":"t1","patch_type":"add_content","n":%d}`, n)
	return err
}

// tailCount counts what a tail gives.
type tailCount struct {
	mu   sync.Mutex
	seen map[int]int
}

func countTail(t *testing.T, l *Log) *tailCount {
	f := &tailCount{seen: map[int]int{}}
	ctx, cancel := context.WithCancel(context.Background())

	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)

		_ = l.Tail(ctx, func(uint64) { close(started) }, func(_ domain.SessionID, _ uint64, _ int, load Load) {
			e, err := load(ctx)

			var n int
			if err == nil && parse(e.Data, &n) == nil {
				f.mu.Lock()
				defer f.mu.Unlock()

				f.seen[n]++
			}
		})
	}()

	<-started
	t.Cleanup(func() { cancel(); <-ended })

	return f
}

func (f *tailCount) await(t *testing.T, want map[int]int) {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()

		return len(f.seen) >= len(want)
	}, time.Minute, time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()

	require.Equal(t, want, f.seen)
}

// The server comes back with an older copy of its data, or with none, while
// processes are connected: one continues to publish, one only follows.
func TestLog_restoredData(t *testing.T) {
	for name, test := range map[string]struct {
		copied bool
		kept   []int
		names  []string
	}{
		"older copy": {true, []int{0, 1, 2, 8, 9}, []string{"EVENTS", "EVENTS_2"}},
		"no data":    {false, []int{8, 9}, []string{"EVENTS"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			l, reader := e.open(Config{}), e.open(Config{})
			f := countTail(t, reader)
			want := map[int]int{}

			say := func(n int) uint64 {
				want[n] = 1
				return publish(t, l, patch("s1", n))
			}
			for n := range 3 {
				say(n)
			}

			f.await(t, want)
			e.Stop()

			data := ""
			if test.copied {
				data = e.copyData()
			}

			e.Start()

			var lost []uint64
			for n := 3; n < 8; n++ {
				lost = append(lost, say(n))
			}

			f.await(t, want)

			high := l.HighWater()

			e.Stop()
			e.restore(data)
			e.Start()
			require.Greater(t, say(8), high)
			say(9)
			f.await(t, want)
			require.Equal(t, test.names, streams(t, l))

			for _, log := range []*Log{l, reader, e.open(Config{HighWater: high})} {
				require.Equal(t, test.kept, numbers(t, readAll(t, log, "s1", 0, math.MaxUint64)))
				count, err := log.Count(t.Context(), "s1", 0)
				require.NoError(t, err)
				require.Equal(t, len(test.kept), count)
				gone, err := log.Lost(t.Context(), lost)
				require.NoError(t, err)
				require.Equal(t, lost, gone)
			}
			// A position among the lost ones is in front of what follows them.
			require.Equal(t, 2, len(readAll(t, l, "s1", lost[2], math.MaxUint64)))
		})
	}
}

// Positions at every place of two generations: what is behind them, and the event at
// or before them.
func TestLog_positionsInGenerations(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})

	var seqs []uint64
	for n := range 3 {
		seqs = append(seqs, publish(t, l, patch("s1", n)))
		publish(t, l, patch("s2", n))
	}

	high := seqs[2] + 100

	l = e.open(Config{HighWater: high})
	for n := 3; n < 6; n++ {
		seqs = append(seqs, publish(t, l, patch("s1", n)))
	}

	positions := []uint64{0, seqs[0] - 1, seqs[1] + 1, seqs[2] + 50, seqs[3] - 1, seqs[5] + 10}
	for _, at := range append(positions, seqs...) {
		var behind []uint64

		last := uint64(0)

		for _, seq := range seqs {
			if seq > at {
				behind = append(behind, seq)
			} else {
				last = seq
			}
		}

		var got []uint64
		for _, event := range readAll(t, l, "s1", at, math.MaxUint64) {
			got = append(got, event.Seq)
		}

		require.Equal(t, behind, got, "behind %d", at)
		count, err := l.Count(t.Context(), "s1", at)
		require.NoError(t, err)
		require.Equal(t, len(behind), count)
		found, err := l.LastUpTo(t.Context(), "s1", at)
		require.NoError(t, err)
		require.Equal(t, last, found, "at %d", at)
	}

	require.NoError(t, l.Forget(t.Context(), "s1"))
	require.Empty(t, readAll(t, l, "s1", 0, math.MaxUint64))
	require.Len(t, readAll(t, l, "s2", 0, math.MaxUint64), 3)
}

// Processes that find the loss at the same time make one generation.
func TestOpen_oneGenerationForAllProcesses(t *testing.T) {
	e := newEngine(t)
	publish(t, e.open(Config{}), patch("s1", 0))

	high := now() + 1000
	logs := make([]*Log, 6)

	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			logs[i] = e.open(Config{HighWater: high})
			publish(t, logs[i], patch("s1", i+1))
		})
	}

	wg.Wait()
	require.Equal(t, []string{"EVENTS", "EVENTS_2"}, streams(t, logs[0]))

	for _, l := range logs {
		require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 7)
	}
}

// An id that the lost end had is published once: by the next generation.
func TestLog_Repeat_looksInAllGenerations(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	kept := edgeEvent("s1", domain.EventTurnStart, "t1")
	seq := publish(t, l, kept)
	l = e.open(Config{HighWater: seq + 10})
	again, err := l.Repeat(t.Context(), kept, 0)
	require.NoError(t, err)
	require.Equal(t, seq, again)

	lost := edgeEvent("s1", domain.EventTurnEnd, "t1")
	next, err := l.Repeat(t.Context(), lost, 0)
	require.NoError(t, err)
	require.Greater(t, next, seq+10)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 2)
}

// A closed generation whose events have all aged is deleted, and its name is not
// used again.
func TestOpen_deletesAgedGenerations(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	publish(t, l, patch("s1", 0))

	reader := e.open(Config{HighWater: now() + 1000})
	publish(t, reader, patch("s1", 1))
	old, err := l.js.Stream(long(t), "EVENTS")
	require.NoError(t, err)
	require.NoError(t, old.Purge(long(t))) // as their age does

	l = e.open(Config{})
	require.Equal(t, []string{"EVENTS_2"}, streams(t, l))
	require.Len(t, readAll(t, reader, "s1", 0, math.MaxUint64), 1, "a process that knows the deleted one")
	require.NoError(t, reader.Forget(t.Context(), "s2"))

	l = e.open(Config{HighWater: reader.HighWater() + 1000})
	require.Equal(t, []string{"EVENTS_2", "EVENTS_3"}, streams(t, l))
	_, err = l.js.Stream(long(t), "EVENTS")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// The server reserves the limit of each stream, so that closed generations must keep
// only their own size.
func TestOpen_manyGenerationsReserveTheSpaceOfOne(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{MaxBytes: 8 << 30})

	for range 40 {
		seq := publish(t, l, patch("s1", 0))
		l = e.open(Config{MaxBytes: 4 << 30, HighWater: seq + 1000})
	}

	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 40)
	require.Equal(t, int64(8<<30), l.newest().config.MaxBytes, "an operator may have raised it by hand")
}
