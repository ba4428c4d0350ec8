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

func TestNewStreamStartsAtMicroseconds(t *testing.T) {
	e := newEngine(t)
	before := now()
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	require.GreaterOrEqual(t, seq, before)
	require.LessOrEqual(t, seq, now())
	require.Equal(t, seq, l.HighWater())
	require.Equal(t, seq+1, publish(t, l, patch("s2", 1)))
}

func TestReopenKeepsEventsAndAppliesConfig(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	e.stop()
	e.start()
	l = e.open(Config{HighWater: seq, MaxAge: time.Hour, MaxBytes: 1 << 20})
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1)
	require.Equal(t, seq+1, publish(t, l, patch("s1", 2)))
	stream, err := l.js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	require.Equal(t, time.Hour, stream.CachedInfo().Config.MaxAge)
	require.EqualValues(t, 1<<20, stream.CachedInfo().Config.MaxBytes)
	e.open(Config{MaxAge: time.Hour, MaxBytes: 1 << 20}) // nothing to change
}

func TestLostTailGoesOnAtNow(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	high := now() + 1000
	l = e.open(Config{HighWater: high})
	require.Empty(t, readAll(t, l, "s1", 0, math.MaxUint64))
	next := publish(t, l, patch("s1", 2))
	require.Greater(t, next, high)
	require.Greater(t, next, seq)
	got := readAll(t, l, "s1", 0, math.MaxUint64)
	require.Len(t, got, 1)
	require.Zero(t, got[0].PrevSeq)
	first, since, err := l.Kept(t.Context())
	require.NoError(t, err)
	require.Equal(t, next, first)
	require.Equal(t, time.UnixMicro(int64(next)).UTC(), since)
}

func TestEventIsPublishedAgainWhenItsCopyWasLost(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	event := edgeEvent("s1", domain.EventTurnStart, "t1")
	seq := publish(t, l, event)
	l = e.open(Config{HighWater: seq + 10}) // the server still remembers the id, not the event
	next := publish(t, l, event)
	require.Greater(t, next, seq+10)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1)
}

func TestStreamThatVanishedIsMadeAgainHigher(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	require.NoError(t, l.js.DeleteStream(t.Context(), "EVENTS"))
	next := publish(t, l, patch("s1", 2))
	require.Greater(t, next, seq)
	require.Len(t, readAll(t, l, "s1", 0, math.MaxUint64), 1)
}

func TestLogThatGivesOldNumbersIsNoticed(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	seq := publish(t, l, patch("s1", 1))
	// Another process finds the stream gone and makes one that starts low, as an
	// operator or a restored backup would.
	require.NoError(t, l.js.DeleteStream(t.Context(), "EVENTS"))
	_, err := l.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "EVENTS", Subjects: []string{"events.>"}, AllowDirect: true,
	})
	require.NoError(t, err)
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

func TestPublishSurvivesARestartOfTheServer(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	publish(t, l, patch("s1", 0))
	e.stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; n <= 5; n++ {
			publish(t, l, patch("s1", n))
		}
	})
	e.start()
	wg.Wait()
	got := readAll(t, l, "s1", 0, math.MaxUint64)
	require.Len(t, got, 6)
	for n, event := range got {
		require.JSONEq(t, string(patch("s1", n).Data), string(event.Data))
	}
}

func TestLandedFindsAnUnacknowledgedEvent(t *testing.T) {
	l := newEngine(t).open(Config{})
	event := patch("s1", 1)
	before := l.HighWater()
	seq := publish(t, l, event)
	body, err := l.encode(t.Context(), event)
	require.NoError(t, err)
	got, found := l.landed(t.Context(), event, body, before)
	require.True(t, found)
	require.Equal(t, seq, got)
	_, found = l.landed(t.Context(), event, body, seq)
	require.False(t, found)
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
	for _, id := range []string{"", "a.b", "*", ">", "a b", "a\n", "ü", strings.Repeat("x", 129)} {
		event := patch(id, 1)
		_, err := l.Publish(t.Context(), event)
		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), "%q: %v", id, err)
		require.Error(t, l.Read(t.Context(), id, 0, 1, func(domain.LoggedEvent) error { return nil }))
		require.Error(t, l.ReadEdges(t.Context(), id, 0, 1, func(domain.LoggedEvent) error { return nil }))
		_, err = l.Last(t.Context(), id)
		require.Error(t, err)
		_, err = l.Oldest(t.Context(), id)
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

func TestPublishGivesUpAtItsDeadline(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	e.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := l.Publish(ctx, patch("s1", 1))
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
}

func TestKeptAndForget(t *testing.T) {
	l := newEngine(t).open(Config{MaxBytes: 64 << 10})
	opened := time.Now()
	first, since, err := l.Kept(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.HighWater()+1, first)
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
			kept, since, err = l.Kept(t.Context())
			require.NoError(t, err)
		}
	}
	require.False(t, since.Before(opened.Add(-time.Second)))
	oldest, err := l.Oldest(t.Context(), "s1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, oldest, kept)
}

func TestConcurrentPublishersNeverLookLikeALostTail(t *testing.T) {
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
