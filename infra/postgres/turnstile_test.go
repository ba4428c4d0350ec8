package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
)

// slowLog holds up the events of one name until it may go on.
type slowLog struct {
	heard
	slow  string
	begun chan struct{}
	goOn  chan struct{}
}

func (l *slowLog) Publish(ctx context.Context, e domain.Event) (uint64, error) {
	if e.Name == l.slow {
		close(l.begun)
		<-l.goOn
	}
	return l.heard.Publish(ctx, e)
}

// A question is in the records before its events are out: the events of an answer
// that comes at once must not overtake them.
func TestChangesAreToldInTheirOrder(t *testing.T) {
	t.Parallel()
	_, _, session := taskBench(t)
	db := open(t)
	log := &slowLog{slow: "asked", begun: make(chan struct{}), goOn: make(chan struct{})}
	j := postgres.NewJournal(db, log, slog.New(slog.DiscardHandler))
	change := func(id, name string, fails error) error {
		return j.Commit(t.Context(), func(c *postgres.Change) error {
			return errors.Join(c.Emit(id, "chat", name, map[string]any{}), fails)
		})
	}
	ends := make(chan error, 2)
	go func() { ends <- change(session.ID, "asked", nil) }()
	<-log.begun
	go func() { ends <- change(session.ID, "answered", nil) }()
	require.Eventually(t, func() bool {
		var committed bool
		err := db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM outbox WHERE session_id = $1 AND name = 'answered')`, session.ID).Scan(&committed)
		return err == nil && committed
	}, time.Minute, time.Millisecond)
	require.Error(t, change(session.ID, "refused", errors.New("no")), "a change that fails waits for nobody")
	require.NoError(t, change("another session", "elsewhere", nil), "nor do other sessions")
	require.Never(t, func() bool { return len(log.names()) > 1 }, 100*time.Millisecond, 10*time.Millisecond)
	close(log.goOn)
	require.NoError(t, <-ends)
	require.NoError(t, <-ends)
	require.NoError(t, change(session.ID, "after", nil))
	require.Equal(t, []string{"elsewhere", "asked", "answered", "after"}, log.names())
}

// onceLog keeps each event once, as the log does, and holds up the first one.
type onceLog struct {
	heard
	mu    sync.Mutex
	known map[string]uint64
	held  atomic.Bool
	begun chan struct{}
	goOn  chan struct{}
}

func (l *onceLog) Publish(ctx context.Context, e domain.Event) (uint64, error) {
	if !l.held.Swap(true) {
		close(l.begun)
		<-l.goOn
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq, known := l.known[e.ID]; known {
		return seq, nil
	}
	seq, err := l.heard.Publish(ctx, e)
	l.known[e.ID] = seq
	return seq, err
}

// The same holds when an api asks and a worker answers, each a process of its own:
// the one behind tells for the one before.
func TestChangesOfTwoProcessesAreToldInTheirOrder(t *testing.T) {
	t.Parallel()
	_, _, session := taskBench(t)
	db := open(t)
	log := &onceLog{known: map[string]uint64{}, begun: make(chan struct{}), goOn: make(chan struct{})}
	worker := postgres.NewJournal(db, log, slog.New(slog.DiscardHandler))
	api := postgres.NewJournal(db, log, slog.New(slog.DiscardHandler))
	change := func(j *postgres.Journal, names ...string) error {
		return j.Commit(t.Context(), func(c *postgres.Change) (err error) {
			for _, name := range names {
				err = errors.Join(err, c.Emit(session.ID, "chat", name, map[string]any{}))
			}
			return err
		})
	}
	ends := make(chan error, 1)
	go func() { ends <- change(worker, "asked", "waiting") }()
	<-log.begun
	require.NoError(t, change(api, "answered"))
	require.Equal(t, []string{"asked", "waiting", "answered"}, log.names())
	close(log.goOn)
	require.NoError(t, <-ends)
	require.NoError(t, change(worker, "ended"))
	require.Equal(t, []string{"asked", "waiting", "answered", "ended"}, log.names())
}
