package pg_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
)

// patience is how long a test waits for what is to come on a slow machine.
const patience = 2 * time.Minute

// scriptedLog keeps each event once by its id, as the event log does, and fails or
// holds what before says.
type scriptedLog struct {
	mu      sync.Mutex
	events  []domain.Event
	known   map[string]uint64
	repeats int
	before  func(e domain.Event) error
	lost    []uint64
}

func (l *scriptedLog) Publish(_ context.Context, e domain.Event) (uint64, error) {
	l.mu.Lock()
	before := l.before
	l.mu.Unlock()

	if before != nil {
		if err := before(e); err != nil {
			return 0, err
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if l.known == nil {
		l.known = map[string]uint64{}
	}

	if seq, known := l.known[e.ID]; known {
		return seq, nil
	}

	l.events = append(l.events, e)
	l.known[e.ID] = uint64(len(l.events))

	return uint64(len(l.events)), nil
}

func (l *scriptedLog) Repeat(ctx context.Context, e domain.Event, _ uint64) (uint64, error) {
	l.mu.Lock()
	l.repeats++
	l.mu.Unlock()

	return l.Publish(ctx, e)
}

func (l *scriptedLog) Lost(_ context.Context, seqs []uint64) (lost []uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, seq := range seqs {
		for _, gone := range l.lost {
			if seq == gone {
				lost = append(lost, seq)
				delete(l.known, l.events[seq-1].ID)
			}
		}
	}

	l.lost = nil

	return lost, nil
}

func (l *scriptedLog) set(before func(domain.Event) error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.before = before
}

func (l *scriptedLog) names(session domain.SessionID) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, e := range l.events {
		if e.SessionID == session {
			names = append(names, e.Name)
		}
	}

	return names
}

func (l *scriptedLog) repeated() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.repeats
}

func newOutbox(t *testing.T, db *postgres.DB, log pg.EventLog) *pg.Outbox {
	return pg.NewOutbox(db.DB, log, slog.New(slog.DiscardHandler))
}

// emit commits one change with events of these names.
func emit(t *testing.T, o *pg.Outbox, session string, names ...string) {
	t.Helper()
	require.NoError(t, o.Update(t.Context(), func(c *pg.Tx) (err error) {
		for _, name := range names {
			err = errors.Join(err, c.Emit(domain.SessionID(session), "chat", name, map[string]any{"text": strings.Repeat("x", 2000)}))
		}

		return err
	}))
}

func unpublished(t *testing.T, db *postgres.DB, session string) (n int) {
	t.Helper()
	require.NoError(t, db.Pool.QueryRow(t.Context(),
		`SELECT count(*) FROM outbox WHERE session_id = $1 AND seq IS NULL`, session).Scan(&n))

	return n
}

// hold lets the first event of a name wait until release is called.
func hold(log *scriptedLog, name string) (started chan struct{}, release func()) {
	started = make(chan struct{})
	goOn := make(chan struct{})

	var once, end sync.Once

	log.set(func(e domain.Event) error {
		if e.Name == name {
			once.Do(func() { close(started) })
			<-goOn
		}

		return nil
	})

	return started, func() { end.Do(func() { close(goOn) }) }
}

func TestOutbox_Update_doesNotWaitForTheEventLog(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	o := newOutbox(t, db, log)

	started, release := hold(log, "asked")
	defer release()

	emit(t, o, "s1", "asked")
	<-started
	emit(t, o, "s1", "answered")
	require.Error(t, o.Update(t.Context(), func(c *pg.Tx) error {
		return errors.Join(c.Emit("s1", "chat", "refused", map[string]any{}), errors.New("no"))
	}))
	emit(t, o, "s2", "elsewhere")
	require.NoError(t, o.Published(t.Context(), "s2"), "sessions do not wait for each other")
	require.Empty(t, log.names("s1"))

	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, o.Published(waiting, "s1"), context.Canceled)
	release()
	emit(t, o, "s1", "after")
	require.NoError(t, o.Published(t.Context(), "s1"))
	require.Equal(t, []string{"asked", "answered", "after"}, log.names("s1"))
}

// A change that another process makes after it has seen the first must not
// overtake it, though the first process is slow to publish.
func TestOutbox_Update_keepsTheOrderBetweenProcesses(t *testing.T) {
	t.Parallel()
	db, slow := pgtest.Open(t), &scriptedLog{}
	worker := newOutbox(t, db, slow)

	started, release := hold(slow, "asked")
	defer release()

	emit(t, worker, "s1", "asked", "waiting")
	<-started

	log := &scriptedLog{}
	api := newOutbox(t, db, log)
	emit(t, api, "s1", "answered")
	require.NoError(t, api.Flush(t.Context()))
	require.Equal(t, []string{"asked", "waiting", "answered"}, log.names("s1"))
	require.Zero(t, log.repeated(), "young events are not looked for in the log")
}

// After an outage in which more was committed than memory may hold, all events
// come once and in order.
func TestOutbox_publishesAllInOrderAfterAnOutage(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	o := newOutbox(t, db, log)
	log.set(func(domain.Event) error { return domain.Unavailablef("event log", errors.New("away")) })

	var want []string

	for n := range 700 { // of 2 kB: more than the copies of a session may take
		name := fmt.Sprintf("e%03d", n)
		want = append(want, name)
		emit(t, o, "s1", name)
	}

	emit(t, o, "s2", "other")
	require.LessOrEqual(t, pg.QueuedBytes(o), 1<<20+4096)
	log.set(nil)
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, want, log.names("s1"))
	require.Equal(t, []string{"other"}, log.names("s2"))
	require.Zero(t, pg.QueuedBytes(o))
	require.Eventually(t, func() bool { return pg.QueuedSessions(o) == 0 }, patience, time.Millisecond)
}

func TestOutbox_PublishLeft_isNotHeldBackByOneSession(t *testing.T) {
	t.Parallel()
	db, away := pgtest.Open(t), &scriptedLog{}
	dead := newOutbox(t, db, away)
	away.set(func(domain.Event) error { return errors.New("the process is dead") })

	for _, session := range []string{"bad", "s1", "s2"} {
		emit(t, dead, session, "first", "second")
	}

	pg.CloseQueue(dead)

	log := &scriptedLog{before: func(e domain.Event) error {
		if e.SessionID == "bad" {
			return domain.Unavailablef("object store", errors.New("the body cannot be stored"))
		}

		return nil
	}}
	o := newOutbox(t, db, log)
	running, end := context.WithCancel(t.Context())
	ended := make(chan struct{})

	go func() { o.Run(running); close(ended) }() // recovers in the background

	require.Eventually(t, func() bool {
		return len(log.names("s1")) == 2 && len(log.names("s2")) == 2
	}, patience, 10*time.Millisecond)
	require.Equal(t, []string{"first", "second"}, log.names("s1"))
	require.Empty(t, log.names("bad"))
	log.set(nil)
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, []string{"first", "second"}, log.names("bad"))
	end()
	<-ended

	for _, session := range []string{"bad", "s1", "s2"} {
		require.Zero(t, unpublished(t, db, session))
	}
}

func TestOutbox_leavesOutAnEventThatCannotBePublished(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	log := &scriptedLog{before: func(e domain.Event) error {
		if e.Name == "broken" {
			return domain.Invalidf("data", "is not an object")
		}

		return nil
	}}
	o := newOutbox(t, db, log)
	emit(t, o, "s1", "first", "broken", "last")
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, []string{"first", "last"}, log.names("s1"))
}

// Events that are too old for the log to know their id are looked for in it.
func TestOutbox_looksForOldEvents(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	dead := newOutbox(t, db, log)
	pg.CloseQueue(dead)
	emit(t, dead, "s1", "old")
	_, err := db.Pool.Exec(t.Context(), `UPDATE outbox SET created_at = now() - interval '5 minutes'`)
	require.NoError(t, err)
	o := newOutbox(t, db, log)
	published, err := o.PublishLeft(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, published)
	require.Equal(t, 1, log.repeated())
	require.Equal(t, []string{"old"}, log.names("s1"))
}

// A row outlives its publication by more than the log takes to flush, and what the
// log lost in the meantime is published again.
func TestOutbox_publishesAgainWhatTheLogLost(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	log.lost = []uint64{2}
	o := newOutbox(t, db, log)
	running, end := context.WithCancel(t.Context())
	ended := make(chan struct{})

	go func() { o.Run(running); close(ended) }()

	defer func() { end(); <-ended }()

	emit(t, o, "s1", "first", "second")
	require.NoError(t, o.Flush(t.Context()))
	require.Eventually(t, func() bool { // or Run has published it already
		return unpublished(t, db, "s1") == 1 || len(log.names("s1")) == 3
	}, patience, 20*time.Millisecond, "the row is unpublished again")
	_, err := o.PublishLeft(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []string{"first", "second", "second"}, log.names("s1"))
	require.Eventually(t, func() bool {
		var rows int

		err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&rows)

		return err == nil && rows == 0
	}, patience, 50*time.Millisecond, "published rows leave the outbox")
}

// A database that lost commits in a failover gives their ids to other rows. The process that
// published the lost event must not take another process's row for it.
func TestOutbox_notesNoRowThatGotTheIDOfALostOne(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	o := newOutbox(t, db, log)
	started, release := hold(log, "lost")

	emit(t, o, "s1", "lost")
	<-started

	// The replica that took over never had the row, and another process writes its first.
	var id int64
	require.NoError(t, db.Pool.QueryRow(t.Context(), `DELETE FROM outbox WHERE session_id = 's1' RETURNING id`).Scan(&id))
	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO outbox (id, event_id, session_id, name, data, writer) OVERRIDING SYSTEM VALUE
		VALUES ($1, 'other', 's2', 'other', '{}', 'another process')`, id)
	require.NoError(t, err)

	running, end := context.WithCancel(t.Context())

	release()
	require.NoError(t, o.Published(t.Context(), "s1"))
	end() // before it publishes what others left: Run notes what is published, and ends
	o.Run(running)

	var noted int64
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT high_water FROM event_log`).Scan(&noted))
	require.EqualValues(t, 1, noted)
	require.Equal(t, 1, unpublished(t, db, "s2"))
}

// While the event log is unavailable, many events wait, next to many that are published. Each
// look for the former walks along the index of those alone.
func TestOutbox_looksForUnpublishedRowsByTheirIndex(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO outbox (event_id, session_id, name, data, writer, seq)
		SELECT 'e' || n, 's' || n % 10, 'x', '{}', 'w', CASE WHEN n % 100 > 0 THEN n END FROM generate_series(1, 5000) n`)
	require.NoError(t, err)

	for name, query := range map[string]string{
		"rows of another process": `SELECT EXISTS (SELECT 1 FROM outbox b WHERE b.session_id = 's1' AND b.writer <> 'v' AND b.seq IS NULL)`,
		"rows of a session":       `SELECT id FROM outbox WHERE session_id = 's1' AND seq IS NULL AND id > 0 ORDER BY id LIMIT 64`,
		"sessions": `SELECT session_id, count(*) FROM outbox WHERE seq IS NULL AND created_at <= now() - interval '1 s'
			GROUP BY session_id ORDER BY min(id) LIMIT 256`,
		"count": `SELECT count(*) FROM outbox WHERE seq IS NULL`,
	} {
		rows, err := db.Pool.Query(t.Context(), "EXPLAIN "+query)
		require.NoError(t, err)

		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Contains(t, strings.Join(lines, "\n"), "outbox_left", name)
	}
}

// What the log lost is published before the session's next change, by whichever
// process comes next, with the place that it had.
func TestOutbox_Requeue_publishesLostEventsFirst(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	dead := newOutbox(t, db, log)
	emit(t, dead, "s1", "first", "second")
	require.NoError(t, dead.Flush(t.Context()))
	ended, end := context.WithCancel(t.Context())
	end()
	dead.Run(ended) // notes what is published
	require.Zero(t, unpublished(t, db, "s1"))

	log.mu.Lock()
	log.lost = []uint64{2}
	log.mu.Unlock()
	o := newOutbox(t, db, log)
	require.NoError(t, o.Requeue(t.Context()))
	require.Equal(t, 1, unpublished(t, db, "s1"))
	emit(t, o, "s1", "third")
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, []string{"first", "second", "second", "third"}, log.names("s1"))

	var places []uint64
	for _, e := range log.events {
		places = append(places, e.LostSeq)
	}

	require.Equal(t, []uint64{0, 0, 2, 0}, places)
}

// A change of one statement takes its ticket before it is committed: what is
// committed behind it, as the end of the chat, is published behind it.
func TestOutbox_UpdateOne_takesItsTicketFirst(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	user := pgtest.User(t, db, "ada", false)
	o := newOutbox(t, db, log)

	var events pg.Events
	events.Add(domain.Event{ID: domain.NewID(), SessionID: "s1", Name: "result", At: time.Now(), Data: []byte(`{}`)})

	held, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), `SELECT 1 FROM users WHERE id = $1 FOR UPDATE`, user.ID)
	require.NoError(t, err)

	committed := make(chan error, 1)
	go func() {
		committed <- o.UpdateOne(t.Context(), &events, pg.Statement{
			Parts: `changed AS (UPDATE users SET username = username WHERE id = @user RETURNING id)`,
			Args:  pgx.NamedArgs{"user": user.ID},
		})
	}()

	require.Eventually(t, func() bool {
		var waiting bool

		err := db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`).Scan(&waiting)

		return err == nil && waiting
	}, patience, 10*time.Millisecond, "the statement waits for the row")
	emit(t, o, "s1", "end")
	require.Empty(t, log.names("s1"))

	require.NoError(t, held.Rollback(t.Context()))
	require.NoError(t, <-committed)
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, []string{"result", "end"}, log.names("s1"))
}

// A promoted standby lacks a transaction whose events this process still has in memory: they
// report what never happened.
func TestOutbox_failover_publishesWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	db, log := pgtest.Open(t), &scriptedLog{}
	o := newOutbox(t, db, log)
	started, release := hold(log, "first")

	emit(t, o, "s1", "first")
	<-started
	emit(t, o, "s1", "lost", "kept")

	_, err := db.Pool.Exec(t.Context(), `DELETE FROM outbox WHERE name = 'lost'`)
	require.NoError(t, err)
	require.NoError(t, pg.FailOver(db.DB))
	release()
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, []string{"first", "kept"}, log.names("s1"))
}

// A process follows a promoted standby, and never goes back to the former primary.
func TestDB_Failovers(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	require.Zero(t, db.Failovers())

	require.NoError(t, pg.Reach(db.DB, 100))
	require.Equal(t, 1, db.Failovers())
	require.ErrorContains(t, pg.Reach(db.DB, 99), "former primary")
	require.NoError(t, pg.Reach(db.DB, 100))
	require.Equal(t, 1, db.Failovers())
}
