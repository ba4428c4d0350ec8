package postgres_test

import (
	"context"
	"errors"
	"log/slog"
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
