package events

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// seen collects what a tail delivers.
type seen struct {
	mu       sync.Mutex
	position uint64
	events   []domain.LoggedEvent
}

func (s *seen) each(session domain.SessionID, seq uint64, _ int, load Load) {
	e, err := load(context.Background())
	if err != nil || e.SessionID != session {
		e.Name = fmt.Sprint("broken: ", err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.position = seq
	s.events = append(s.events, domain.LoggedEvent{Event: e, Seq: seq})
}

func (s *seen) seqs() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	var out []uint64
	for _, e := range s.events {
		out = append(out, e.Seq)
	}

	return out
}

// follow starts a tail that ends with the test.
func follow(t *testing.T, l *Log) *seen {
	s := &seen{}
	ctx, cancel := context.WithCancel(context.Background())

	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)

		_ = l.Tail(ctx, func(seq uint64) { s.position = seq; close(started) }, s.each)
	}()

	t.Cleanup(func() { cancel(); <-ended })
	<-started

	return s
}

func TestTail_allSessionsInOrder(t *testing.T) {
	l := newEngine(t).open(Config{})
	old := publish(t, l, patch("s1", 0))
	s := follow(t, l)
	require.Equal(t, old, s.position)

	var want []uint64

	for n := range 500 {
		event := patch(fmt.Sprintf("s%d", n%7), n)
		if n%10 == 0 {
			event = edgeEvent(string(event.SessionID), domain.EventTurnStart, "t")
		}

		want = append(want, publish(t, l, event))
	}

	require.Eventually(t, func() bool { return len(s.seqs()) >= len(want) }, time.Minute, time.Millisecond)
	require.Equal(t, want, s.seqs())

	for n, e := range s.events {
		require.EqualValues(t, fmt.Sprintf("s%d", n%7), e.SessionID)
	}
}

func TestTail_serverRestarts(t *testing.T) {
	e := newEngine(t)
	l := e.open(Config{})
	s := follow(t, l)

	var want []uint64

	for round := range 3 {
		for n := range 50 {
			want = append(want, publish(t, l, patch("s1", n)))
		}

		e.Stop()
		e.Start()

		want = append(want, publish(t, l, patch("s1", round)))
	}

	require.Eventually(t, func() bool { return len(s.seqs()) >= len(want) }, time.Minute, 10*time.Millisecond)
	require.Equal(t, want, s.seqs())
}

func TestTail_consumerLost(t *testing.T) {
	l := newEngine(t).open(Config{})
	s := follow(t, l)
	want := []uint64{publish(t, l, patch("s1", 0))}
	require.Eventually(t, func() bool { return len(s.seqs()) == 1 }, time.Minute, time.Millisecond)
	stream, err := l.js.Stream(long(t), "EVENTS")
	require.NoError(t, err)

	for name := range stream.ConsumerNames(t.Context()).Name() {
		require.NoError(t, stream.DeleteConsumer(t.Context(), name))
	}

	want = append(want, publish(t, l, patch("s1", 1)))
	require.Eventually(t, func() bool { return len(s.seqs()) == 2 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, want, s.seqs())
}

func TestTail_streamRecreated(t *testing.T) {
	l := newEngine(t).open(Config{})
	s := follow(t, l)
	first := publish(t, l, patch("s1", 0))
	require.Eventually(t, func() bool { return len(s.seqs()) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, l.js.DeleteStream(long(t), "EVENTS"))
	second := publish(t, l, patch("s1", 1))
	require.Eventually(t, func() bool { return len(s.seqs()) == 2 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, []uint64{first, second}, s.seqs())
	require.Greater(t, second, first)
}

func TestSequencesOfReplySubjects(t *testing.T) {
	for _, reply := range []string{
		"$JS.ACK.EVENTS.tail.1.42.7.1700000000000000000.0",
		"$JS.ACK._.ACCOUNT.EVENTS.tail.1.42.7.1700000000000000000.0",
		"$JS.ACK.hub.ACCOUNT.EVENTS.tail.1.42.7.1700000000000000000.0.token",
	} {
		stream, consumer, err := sequences(reply)
		require.NoError(t, err)
		require.EqualValues(t, 42, stream)
		require.EqualValues(t, 7, consumer)
	}

	for _, reply := range []string{"", "_INBOX.x", "$JS.ACK.EVENTS.tail.1.x.7.1.0", "$JS.ACK.EVENTS.tail.1.7.x.1.0"} {
		_, _, err := sequences(reply)
		require.Error(t, err, reply)
	}
}

func BenchmarkPublish(b *testing.B) {
	l := newEngine(b).open(Config{})
	for n := range b.N {
		publish(b, l, patch("s1", n))
	}
}
