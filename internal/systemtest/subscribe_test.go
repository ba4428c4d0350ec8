package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/events"
	"everloop/realtime"
)

// countedLog counts the messages that are read from the event log.
type countedLog struct {
	*events.Log
	read atomic.Int64
}

func (l *countedLog) counted(fn func(domain.LoggedEvent) error) func(domain.LoggedEvent) error {
	return func(e domain.LoggedEvent) error {
		l.read.Add(1)
		return fn(e)
	}
}

func (l *countedLog) Read(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error {
	return l.Log.Read(ctx, sessionID, after, upTo, l.counted(fn))
}

func (l *countedLog) ReadEdges(
	ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error,
) error {
	return l.Log.ReadEdges(ctx, sessionID, after, upTo, l.counted(fn))
}

// unbounded is a state that does not know where turns start.
type unbounded struct{ realtime.State }

func (u unbounded) Live(ctx context.Context, sessionID domain.SessionID) (domain.LiveState, error) {
	live, err := u.State.Live(ctx, sessionID)
	live.TurnsAfter = 0

	return live, err
}

// hub runs a hub over the event log until the test ends.
func (s *stack) hub(log realtime.Log, state realtime.State) *realtime.Hub {
	ctx, cancel := context.WithCancel(context.Background())
	hub := realtime.NewHub(realtime.HubConfig{Log: log, State: state, Logger: s.logger})

	ended := make(chan struct{})
	go func() { defer close(ended); _ = hub.Run(ctx) }()

	s.t.Cleanup(func() { cancel(); <-ended })

	return hub
}

// endedTurns adds turns that started and ended, to the database and the event log.
func (s *stack) endedTurns(session domain.SessionID, n int) {
	s.t.Helper()

	var last uint64

	for i := range n {
		id := fmt.Sprintf("ended_%s_%d", session, i)
		for _, name := range []string{domain.EventTurnStart, domain.EventTurnEnd} {
			data, err := json.Marshal(obj{"turn_id": id, "status": "completed"})
			require.NoError(s.t, err)
			last, err = s.log.Publish(s.t.Context(), domain.Event{
				ID: domain.NewID(), SessionID: session, Name: name, At: time.Now(), Data: data,
			})
			require.NoError(s.t, err)
		}
	}

	s.exec(`
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, ended_at)
		SELECT 'ended_' || c.session_id || '_' || i, c.session_id, c.branch_id, 1000000 + i, c.id, 'assistant', 'completed', now()
		FROM   chats c, generate_series(0, $2 - 1) i WHERE c.session_id = $1`, session, n)
	s.exec(`UPDATE event_log SET high_water = $1`, int64(last)) // as the outbox does
}

// A subscription reads from the event log what belongs to open turns. It does not read the
// turns that ended before, however many there are.
func TestSubscribe_endedTurnsAreNotRead(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	first := s.send(session, script(obj{"steps": []obj{{"text": "before"}}}))
	s.awaitEnd(session, first.ChatID)
	s.endedTurns(session, 2000)

	ack := s.send(session, script(obj{"steps": []obj{{"text": "streams on", "hold": true}}}))
	require.Eventually(t, func() bool {
		live, err := s.journal.Live(t.Context(), session)
		return err == nil && len(live.OpenTurns) == 1
	}, patience, 10*time.Millisecond)
	require.NoError(t, s.journal.Flush(t.Context()))
	last, err := s.log.Last(t.Context(), session)
	require.NoError(t, err)

	log := &countedLog{Log: s.log}
	hub := s.hub(log, s.journal)

	for name, after := range map[string]*uint64{"from now on": nil, "after the last event": &last} {
		sub, err := hub.Subscribe(t.Context(), session, after)
		require.NoError(t, err)
		require.Len(t, sub.Snapshot().OpenTurns, 1, name)
		require.Equal(t, ack.ChatID, sub.Snapshot().OpenTurns[0].ChatID, name)
		sub.Close()
		require.Less(t, log.read.Swap(0), int64(30), name)
	}

	s.releaseUntil(func() bool {
		live, err := s.journal.Live(t.Context(), session)
		return err == nil && live.Status == domain.SessionCompleted
	})
}

// The open turns are the same at each position of a session, whether all turns of the session
// are read or those that are needed.
func TestSubscribe_openTurnsAtEachPosition(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"text": "looks", "calls": []obj{
			bash(
				"echo one",
			),
			agent("asks", obj{"calls": []obj{ask()}}, obj{"text": "so it is blue"}),
			agent("works", obj{"text": "worked"}),
		}},
		{"text": "done"},
	}}))
	question := s.asked(session, 1)[0]
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])

	bounded, whole := s.hub(s.log, s.journal), s.hub(s.log, unbounded{s.journal})
	same := func() {
		all := s.events(session)
		open := 0

		for _, e := range all {
			want, err := whole.Subscribe(t.Context(), session, &e.Seq)
			require.NoError(t, err)
			got, err := bounded.Subscribe(t.Context(), session, &e.Seq)
			require.NoError(t, err)
			require.Equal(t, want.Snapshot().OpenTurns, got.Snapshot().OpenTurns, "after %s, %d", e.Name, e.Seq)
			open += len(want.Snapshot().OpenTurns)
			want.Close()
			got.Close()
		}

		require.Greater(t, open, 10)
	}

	same() // with turns that are paused

	s.answerTo(session, question)
	s.awaitEnds(session, ack.ChatID, 2)
	same() // with none that is open
}
