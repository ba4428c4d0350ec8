package events

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// long bounds a request to the server: without a bound, it has five seconds.
func long(t *testing.T) context.Context {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)

	return ctx
}

func TestLog_newStreamStartsAtMicroseconds(t *testing.T) {
	e := newEngine(t)
	before := now()
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	require.GreaterOrEqual(t, seq, before)
	require.LessOrEqual(t, seq, now())
	require.Equal(t, seq, l.HighWater())
	require.Equal(t, seq+1, publish(t, l, patch("s2", 1)))
}

func TestLog_reopen(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))

	e.Stop()
	e.Start()
	l = e.open(Config{HighWater: seq, MaxAge: 48 * time.Hour, MaxBytes: 1 << 20})
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1)
	require.Greater(t, publish(t, l, patch("s1", 2)), seq)
	stream, err := l.js.Stream(long(t), "EVENTS_2")
	require.NoError(t, err)
	require.Equal(t, 48*time.Hour, stream.CachedInfo().Config.MaxAge)
	require.EqualValues(t, -1, stream.CachedInfo().Config.MaxBytes, "no limit is not lowered")
	e.open(Config{MaxAge: time.Hour, MaxBytes: 1 << 20}) // nothing to change
}

func TestOpen_lowersNoLimit(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{MaxAge: time.Hour, MaxBytes: 1 << 20})
	raised, err := l.js.Stream(long(t), "EVENTS")
	require.NoError(t, err)

	byHand := raised.CachedInfo().Config
	byHand.MaxAge, byHand.MaxBytes, byHand.Duplicates = 48*time.Hour, -1, 10*time.Minute
	_, err = l.js.UpdateStream(t.Context(), byHand)
	require.NoError(t, err)

	l = e.open(Config{MaxAge: time.Hour, MaxBytes: 1 << 20})
	stream, err := l.js.Stream(long(t), "EVENTS")
	require.NoError(t, err)

	have := stream.CachedInfo().Config
	require.Equal(t, 48*time.Hour, have.MaxAge)
	require.EqualValues(t, -1, have.MaxBytes)
	require.Equal(t, 10*time.Minute, have.Duplicates)
}

// Replicas that were raised by hand are kept too. One server cannot have more than one.
func TestLog_wanted_lowersNoReplicas(t *testing.T) {
	for _, replicas := range []struct{ have, configured, want int }{{3, 1, 3}, {1, 3, 3}, {3, 3, 3}, {1, 0, 1}} {
		l := &Log{cfg: Config{Replicas: replicas.configured}}
		require.Equal(t, replicas.want, l.wanted(jetstream.StreamConfig{Replicas: replicas.have}).Replicas)
	}
}

// A server alone cannot keep three replicas: an existing log is used as it is.
func TestOpen_startsWithFewerReplicasThanWanted(t *testing.T) {
	e := newEngine(t)
	publish(t, e.open(Config{}), patch("s1", 1))
	l := e.open(Config{Replicas: 3})
	publish(t, l, patch("s1", 2))
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 2)
}

// A log that lost its end keeps what it has: the events that follow are in a stream
// of their own.
func TestOpen_lostEndMakesAGeneration(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	high := now() + 1000
	l = e.open(Config{HighWater: high})
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1)
	next := publish(t, l, patch("s1", 2))
	require.Greater(t, next, high)
	got := readAll(t, l, "s1", 0, math.MaxUint64)
	require.Len(t, got, 2)
	require.Equal(t, []uint64{0, seq}, []uint64{got[0].PrevSeq, got[1].PrevSeq})
	first, since, err := l.Kept(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, next, first)
	require.Equal(t, time.UnixMicro(int64(next)).UTC(), since)
}

func TestLog_Lost_namesWhatWentWithTheTail(t *testing.T) {
	l := newEngine(t).open(Config{})
	seq := publish(t, l, patch("s1", 1))
	lost, err := l.Lost(t.Context(), []uint64{seq})
	require.NoError(t, err)
	require.Empty(t, lost)
	l.raise(seq + 10) // the log had come further, and has lost that
	lost, err = l.Lost(t.Context(), []uint64{seq, seq + 1})
	require.NoError(t, err)
	require.Equal(t, []uint64{seq + 1}, lost)
	next := publish(t, l, patch("s1", 2))
	lost, err = l.Lost(t.Context(), []uint64{next})
	require.NoError(t, err)
	require.Empty(t, lost)
}

func TestLog_Publish_looksInClosedGenerations(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	event := edgeEvent("s1", domain.EventTurnStart, "t1")
	seq := publish(t, l, event)
	l = e.open(Config{HighWater: seq + 10})
	next := publish(t, l, event)
	require.Equal(t, seq, next)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1)
}

func TestLog_streamVanished(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	require.NoError(t, l.js.DeleteStream(long(t), "EVENTS"))
	next := publish(t, l, patch("s1", 2))
	require.Greater(t, next, seq)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1)
}

func TestLog_oldSequenceNumbers(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	// Another process finds the stream gone and makes one that starts low, as an
	// operator or a restored backup would.
	require.NoError(t, l.js.DeleteStream(long(t), "EVENTS"))
	// The server refuses the name while it still takes the deleted stream's files away.
	require.Eventually(t, func() bool {
		_, err := l.js.CreateStream(long(t), jetstream.StreamConfig{
			Name: "EVENTS", Subjects: []string{"events.>"}, AllowDirect: true,
		})

		return err == nil
	}, time.Minute, 10*time.Millisecond)
	next := publish(t, l, patch("s1", 2))
	require.Greater(t, next, seq)
	got := readAll(t, l, "s1", 0, math.MaxUint64)
	require.Len(t, got, 1)
	require.Equal(t, next, got[0].Seq)
}

func TestSameIDIsKeptOnce(t *testing.T) {
	l := newEngine(t).open(Config{})
	event := edgeEvent("s1", domain.EventTurnEnd, "t1")
	seq := publish(t, l, event)
	publish(t, l, patch("s1", 1))
	require.Equal(t, seq, publish(t, l, event))
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 2)
}

func TestPublish_serverRestart(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	publish(t, l, patch("s1", 0))
	e.Stop()

	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; n <= 5; n++ {
			publish(t, l, patch("s1", n))
		}
	})
	e.Start()
	wg.Wait()

	got := readAll(t, l, "s1", 0, math.MaxUint64)
	require.Len(t, got, 6)

	for n, event := range got {
		require.JSONEq(t, string(patch("s1", n).Data), string(event.Data))
	}
}

func TestLog_Repeat_publishesOnce(t *testing.T) {
	l := newEngine(t).open(Config{})
	event := patch("s1", 1)
	event.ID = "d-1"
	before := publish(t, l, patch("s1", 0))
	seq, err := l.PublishDelta(t.Context(), event)
	require.NoError(t, err)
	publish(t, l, patch("s1", 2))
	again, err := l.Repeat(t.Context(), event, before)
	require.NoError(t, err)
	require.Equal(t, seq, again)

	fresh := patch("s1", 3)
	fresh.ID = "d-2"
	next, err := l.Repeat(t.Context(), fresh, before)
	require.NoError(t, err)
	require.Greater(t, next, seq)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 4)
}

// A delta that could not be sent is not sent after the next connect: another process may
// have repeated it by then.
func TestLog_PublishDelta_isNotSentLater(t *testing.T) {
	e := newEngine(t)
	nc := e.Connect()
	l, err := Open(t.Context(), nc, Config{})
	require.NoError(t, err)
	before := publish(t, l, patch("s1", 0))

	e.Stop()
	require.Eventually(t, nc.IsReconnecting, time.Minute, time.Millisecond)

	event := patch("s1", 1)
	event.ID = "d-1"
	_, err = l.PublishDelta(t.Context(), event)
	require.Error(t, err)
	e.Start()
	publish(t, l, patch("s1", 2)) // comes behind all that the client kept
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 2)
	_, err = l.Repeat(t.Context(), event, before)
	require.NoError(t, err)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 3)
}

// Two processes publish one event at the age at which its id alone stops being safe:
// one already repeats it, and the other still publishes it.
func TestLog_Publish_knowsWhatWasRepeated(t *testing.T) {
	l := newEngine(t).open(Config{})
	event := patch("s1", 1)
	event.ID = "e-1"
	before := publish(t, l, patch("s1", 0))
	repeated, err := l.Repeat(t.Context(), event, before)
	require.NoError(t, err)
	publish(t, l, patch("s1", 2))
	seq, err := l.Publish(t.Context(), event)
	require.NoError(t, err)
	require.Equal(t, repeated, seq)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 3)
}

// The subject's last event is a condition of a repeated publish: what comes in
// between, as the first try that was still on its way, is looked at.
func TestLog_Repeat_looksAgainWhenItWasOvertaken(t *testing.T) {
	l := newEngine(t).open(Config{})
	event := patch("s1", 1)
	event.ID = "d-1"
	msg, err := l.message(t.Context(), event)
	require.NoError(t, err)

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 50 {
				publish(t, l, patch("s1", n))
			}
		})
		wg.Go(func() {
			_, err := l.Repeat(t.Context(), event, 0)
			require.NoError(t, err)
		})
	}

	wg.Wait()
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 201)

	stale := *msg
	stale.Header = map[string][]string{jetstream.ExpectedLastSubjSeqHeader: {"1"}}
	_, err = l.publishOnce(t.Context(), &stale, 0)
	require.True(t, overtaken(err), "%v", err)
}

func TestLargeBodiesAreReferences(t *testing.T) {
	store := newBlobs()
	l := newEngine(t).open(Config{Blobs: store})
	big := patch("s1", 1)
	big.Data = []byte(`{"text":"` + strings.Repeat("ü<", 1<<20) + `"}`)
	publish(t, l, big)
	small := publish(t, l, patch("s1", 2))
	require.Len(t, store.data, 1)
	got := readAll(t, l, "s1", 0, math.MaxUint64)
	require.Len(t, got, 2)
	require.JSONEq(t, string(big.Data), string(got[0].Data))
	require.Equal(t, small, got[1].Seq)

	store.err = errors.New("the store is down")
	err := l.Read(t.Context(), "s1", 0, math.MaxUint64, func(domain.LoggedEvent) error { return nil })
	require.ErrorContains(t, err, "the store is down")
	_, err = l.Publish(t.Context(), big)
	require.ErrorContains(t, err, "the store is down")
	store.err = nil
	clear(store.data)

	got = readAll(t, l, "s1", 0, math.MaxUint64)
	require.JSONEq(t, `{"payload_missing":true}`, string(got[0].Data))
}

func TestRefusedEvents(t *testing.T) {
	l := newEngine(t).open(Config{})

	for _, id := range []domain.SessionID{"", "a.b", "*", ">", "a b", "a\n", "ü", domain.SessionID(strings.Repeat("x", 129))} {
		event := patch(string(id), 1)
		_, err := l.Publish(t.Context(), event)
		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), "%q: %v", id, err)
		require.Error(t, l.Read(t.Context(), id, 0, 1, func(domain.LoggedEvent) error { return nil }))
		require.Error(t, l.ReadEdges(t.Context(), id, 0, 1, func(domain.LoggedEvent) error { return nil }))
		_, err = l.Last(t.Context(), id)
		require.Error(t, err)
		_, err = l.Count(t.Context(), id, 0)
		require.Error(t, err)
	}

	for _, data := range []string{`[1]`, `"x"`, `{"a":`, `{} {}`} {
		event := patch("s1", 1)
		event.Data = []byte(data)
		_, err := l.Publish(t.Context(), event)
		require.Error(t, err, data)
	}

	big := patch("s1", 1)
	big.Data = []byte(`{"text":"` + strings.Repeat("x", maxInline) + `"}`)
	_, err := l.Publish(t.Context(), big)
	require.True(t, domain.HasCode(err, domain.CodeMessageTooLarge))
}

func TestPublish_deadline(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	e.Stop()

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()

	_, err := l.Publish(ctx, patch("s1", 1))
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
}

func TestKeptAndForget(t *testing.T) {
	l := newEngine(t).open(Config{MaxBytes: 64 << 10})
	opened := time.Now()
	first, since, err := l.Kept(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, l.newest().base, first)
	require.WithinDuration(t, opened, since, time.Minute)

	seq := publish(t, l, edgeEvent("gone", domain.EventTurnStart, "t"))
	publish(t, l, patch("gone", 1))
	publish(t, l, patch("stays", 1))
	require.NoError(t, l.Forget(t.Context(), "gone"))
	require.Empty(t, readAll(t, l, "gone", 0, math.MaxUint64))
	require.Len(t, readAll(t, l, "stays", 0, math.MaxUint64), 1)

	// The oldest go first when the log is full, and Kept says so.
	var kept uint64
	for n := 0; kept <= seq; n++ {
		require.Less(t, n, 10_000)
		publish(t, l, patch("s1", n))

		if n%100 == 0 {
			kept, since, err = l.Kept(t.Context(), 0)
			require.NoError(t, err)
		}
	}

	require.False(t, since.Before(opened.Add(-time.Second)))
	oldest := readAll(t, l, "s1", 0, math.MaxUint64)[0].Seq
	require.GreaterOrEqual(t, oldest, kept)
}

func TestPublish_concurrentIsNoLostTail(t *testing.T) {
	l := newEngine(t).open(Config{})

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range 200 {
				publish(t, l, patch("s1", n))
			}
		})
	}

	wg.Wait()
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1600)
}
