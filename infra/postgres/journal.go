package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// EventLog is where events go after the state that they tell of is committed.
type EventLog interface {
	// Publish appends the event, once for each event id, and gives its place.
	Publish(ctx context.Context, e domain.Event) (seq uint64, err error)
	// Find looks for an event id in the session's log after a position.
	Find(ctx context.Context, sessionID string, after uint64, eventID string) (seq uint64, found bool, err error)
}

// Journal changes state and tells of it. The events of a change are written in
// its transaction and published after the commit; what a crash leaves behind is
// published by the next Sweep, so that no event is lost and none comes twice.
type Journal struct {
	*DB
	log       EventLog
	logger    *slog.Logger
	published chan publishedEvent
	writer    string // of this journal's rows in the outbox
	order     turnstile
	behind    sync.Map // sessions with events that could not be published in their turn
}

type publishedEvent struct {
	row int64
	seq uint64
}

// NewJournal makes a journal over the records and the event log. Run must be
// running for published events to be forgotten.
func NewJournal(db *DB, log EventLog, logger *slog.Logger) *Journal {
	return &Journal{DB: db, log: log, logger: logger, published: make(chan publishedEvent, 4096), writer: domain.NewID()}
}

// Change is one transaction and the events that it will have caused.
type Change struct {
	pgx.Tx
	events []domain.Event
}

// Emit adds an event to the change. Data is marshalled at once and must be an
// object.
func (c *Change) Emit(sessionID, chatID, name string, data any) error {
	payload, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	c.events = append(c.events, domain.Event{
		ID: domain.NewID(), SessionID: sessionID, ChatID: chatID, Name: name, At: time.Now().UTC(), Data: payload,
	})
	return nil
}

// Commit runs fn in a transaction and publishes its events in their order, behind
// those of the session's changes before. Once the state is committed Commit
// succeeds, whether or not the log can be reached: Sweep publishes the rest.
func (j *Journal) Commit(ctx context.Context, fn func(*Change) error) error {
	var change Change
	var told outboxed
	var place *place
	err := j.InTx(ctx, func(tx pgx.Tx) error {
		place.giveUp()
		change, place = Change{Tx: tx}, nil // a retried transaction starts anew
		if err := fn(&change); err != nil || len(change.events) == 0 {
			return err
		}
		var err error
		if told, err = j.writeOutbox(ctx, tx, change.events); err != nil {
			return err
		}
		// Before the commit: whoever sees the change and makes the next one, as an
		// answer to its question, is behind it.
		place = j.order.enter(change.events[0].SessionID)
		return nil
	})
	if err != nil {
		place.giveUp()
		return err
	}
	if place != nil {
		place.await()
		defer place.leave()
	}
	j.publishAll(ctx, told, change.events)
	return nil
}

// commitOne is Commit for a change that is one statement: both go in one round.
// Parameters of the statement start at $8. When it changes nothing, the change
// is fenced and nothing is told.
func (j *Journal) commitOne(ctx context.Context, events []domain.Event, statement string, args ...any) error {
	found, err := j.Pool.Query(ctx, `
		WITH changed AS (`+statement+`)
		`+insertOutbox+`
		WHERE  EXISTS (SELECT 1 FROM changed)
		`+returningOutbox, append(j.outboxRows(events), args...)...)
	if err != nil {
		return err
	}
	told, err := collectTold(found)
	if err != nil {
		return err
	}
	if len(told.rows) == 0 {
		return domain.ErrFenced
	}
	place := j.order.enter(events[0].SessionID)
	place.await()
	defer place.leave()
	j.publishAll(ctx, told, events)
	return nil
}

// outboxed are the rows of a change's events in the outbox.
type outboxed struct {
	rows []int64
	// behind says that rows of another process were there before, which may not
	// be published yet.
	behind bool
}

const insertOutbox = `
	INSERT INTO outbox (event_id, session_id, chat_id, name, data, created_at, writer)
	SELECT *, $7 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::json[], $6::timestamptz[])`

// returningOutbox looks at what was there before the statement.
const returningOutbox = `
	RETURNING id, EXISTS (SELECT 1 FROM outbox before WHERE before.session_id = ($2::text[])[1] AND before.writer <> $7)`

func (j *Journal) writeOutbox(ctx context.Context, tx pgx.Tx, events []domain.Event) (outboxed, error) {
	found, err := tx.Query(ctx, insertOutbox+returningOutbox, j.outboxRows(events)...)
	if err != nil {
		return outboxed{}, fmt.Errorf("write outbox: %w", err)
	}
	return collectTold(found)
}

func collectTold(found pgx.Rows) (t outboxed, err error) {
	var row int64
	_, err = pgx.ForEachRow(found, []any{&row, &t.behind}, func() error {
		t.rows = append(t.rows, row)
		return nil
	})
	return t, err
}

// outboxRows gives events as the seven columns of the outbox.
func (j *Journal) outboxRows(events []domain.Event) []any {
	n := len(events)
	ids, sessions, chats := make([]string, n), make([]string, n), make([]string, n)
	names, data, times := make([]string, n), make([]string, n), make([]time.Time, n)
	for i, e := range events {
		ids[i], sessions[i], chats[i], names[i], data[i], times[i] = e.ID, e.SessionID, e.ChatID, e.Name, string(e.Data), e.At
	}
	return []any{ids, sessions, chats, names, data, times, j.writer}
}

// publishAll publishes a change's events in their order. When one fails, those
// behind it must not overtake it, nor those of later changes: the session is
// marked, and its next change publishes what was left first. So does a change
// behind one of another process, which may be slow: what both publish is one event
// in the log.
func (j *Journal) publishAll(ctx context.Context, told outboxed, events []domain.Event) {
	if len(events) == 0 {
		return
	}
	session := events[0].SessionID
	if _, late := j.behind.Load(session); late || told.behind {
		if err := j.catchUp(context.WithoutCancel(ctx), session); err != nil {
			j.behind.Store(session, true)
			j.logger.Warn("events not published yet; the sweep will", "session_id", session, "error", err)
		}
		return
	}
	for i, event := range events {
		if !j.publish(ctx, told.rows[i], event) {
			j.behind.Store(session, true)
			return
		}
	}
}

// catchUp publishes all that is left of one session, in order.
func (j *Journal) catchUp(ctx context.Context, session string) error {
	if _, err := j.publishLeft(ctx, `session_id = $1`, session); err != nil {
		return err
	}
	j.behind.Delete(session)
	return nil
}

func (j *Journal) publish(ctx context.Context, row int64, event domain.Event) bool {
	// The change is committed: a caller that has gone away must not keep its
	// events from the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	seq, err := j.log.Publish(ctx, event)
	if err != nil {
		j.logger.Warn("event not published yet; the sweep will", "event", event.Name, "session_id", event.SessionID, "error", err)
		return false
	}
	select {
	case j.published <- publishedEvent{row, seq}:
	default: // Run is behind; Sweep finds the event in the log and forgets the row
	}
	return true
}

// Run forgets published events in batches and keeps the log's high-water mark,
// until ctx ends.
func (j *Journal) Run(ctx context.Context) {
	for {
		var batch []publishedEvent
		select {
		case <-ctx.Done():
			return
		case first := <-j.published:
			batch = append(batch, first)
		}
		pause := time.NewTimer(50 * time.Millisecond)
		for open := true; open && len(batch) < 2000; {
			select {
			case next := <-j.published:
				batch = append(batch, next)
			case <-pause.C:
				open = false
			}
		}
		pause.Stop()
		if err := j.forget(context.WithoutCancel(ctx), batch); err != nil {
			j.logger.Warn("published events not forgotten yet", "error", err)
		}
	}
}

func (j *Journal) forget(ctx context.Context, batch []publishedEvent) error {
	rows, highest := make([]int64, len(batch)), uint64(0)
	for i, p := range batch {
		rows[i], highest = p.row, max(highest, p.seq)
	}
	// Losing this to a power cut only means that Sweep looks again.
	return j.Quietly(ctx, func(batch *pgx.Batch) {
		batch.Queue(`DELETE FROM outbox WHERE id = ANY($1)`, rows)
		batch.Queue(`
			INSERT INTO event_log (high_water) VALUES ($1)
			ON CONFLICT (id) DO UPDATE SET high_water = greatest(event_log.high_water, excluded.high_water)`, int64(highest))
	})
}

// HighWater gives how far the event log is known to have come, by published
// events and by the flushed text of open turns; 0 before the first event.
func (db *DB) HighWater(ctx context.Context) (uint64, error) {
	var mark int64
	err := db.Pool.QueryRow(ctx, `
		SELECT greatest((SELECT coalesce(max(high_water), 0) FROM event_log),
		                (SELECT coalesce(max(flushed_seq), 0) FROM entries WHERE status IN ('streaming', 'paused')))`).Scan(&mark)
	return uint64(mark), err
}

// Recover publishes all that a process which died has left in the outbox. It is
// called before anything new is told, so that nothing overtakes it.
func (j *Journal) Recover(ctx context.Context) error {
	for {
		left, err := j.publishLeft(ctx, `created_at < $1`, time.Now().Add(time.Hour))
		if err != nil || left.seen < sweepBatch {
			return err
		}
	}
}

// sweepBatch is how many events one sweep looks at.
const sweepBatch = 500

// swept says what a sweep saw and what of it the log did not hold.
type swept struct{ seen, published int }

// Sweep publishes what a crash left in the outbox for longer than age. An event
// that the log already holds is not published again.
func (j *Journal) Sweep(ctx context.Context, age time.Duration) (published int, err error) {
	done, err := j.publishLeft(ctx, `created_at < now() - $1::interval`, age)
	return done.published, err
}

func (j *Journal) publishLeft(ctx context.Context, which string, arg any) (done swept, err error) {
	found, err := j.Pool.Query(ctx, `
		SELECT id, event_id, session_id, chat_id, name, data, created_at
		FROM   outbox WHERE `+which+` ORDER BY id LIMIT $2`, arg, sweepBatch)
	if err != nil {
		return done, err
	}
	type left struct {
		row   int64
		event domain.Event
	}
	rows, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (left, error) {
		var l left
		e := &l.event
		return l, row.Scan(&l.row, &e.ID, &e.SessionID, &e.ChatID, &e.Name, &e.Data, &e.At)
	})
	if err != nil {
		return done, err
	}
	for _, l := range rows {
		seq, known, err := j.log.Find(ctx, l.event.SessionID, 0, l.event.ID)
		if err != nil {
			return done, err
		}
		if !known {
			if seq, err = j.log.Publish(ctx, l.event); err != nil {
				return done, err
			}
			done.published++
		}
		if err := j.forget(ctx, []publishedEvent{{l.row, seq}}); err != nil {
			return done, err
		}
		done.seen++
	}
	return done, nil
}
