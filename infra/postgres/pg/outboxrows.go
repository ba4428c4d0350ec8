package pg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// outboxRow is an event in the outbox.
type outboxRow struct {
	id    int64
	event domain.Event
	after uint64 // the event log had reached this before the event was first published
	maybe bool   // an earlier try may be in the log without a message id
	// behind reports that rows of another process were there before, which may not be
	// published yet.
	behind bool
}

// insertEvents writes the events of a transaction, with its last statement.
func (o *Outbox) insertEvents(ctx context.Context, tx *Tx) ([]outboxRow, error) {
	query, args := insertEventsAlone, o.eventArgs(&tx.Events)
	if tx.last != nil {
		query = tx.last.withEvents()
		maps.Copy(args, tx.last.Args)
	}

	var (
		ids    []int64
		behind bool
	)
	if err := tx.QueryRow(ctx, query, args).Scan(&ids, &behind); err != nil {
		return nil, fmt.Errorf("write outbox: %w", err)
	}

	return tx.rows(ids, behind), nil
}

// The events are one row each, in their order. Behind reports that rows of other
// processes were there before the statement that may not be published yet.
const (
	insertEventsAlone = `
	WITH written AS (
		INSERT INTO outbox (event_id, session_id, chat_id, name, data, created_at, after_seq, maybe_published, writer)
		SELECT o.*, @writer FROM ` + eventRows + ` o RETURNING id)
	SELECT array_agg(id ORDER BY id), ` + behind + ` FROM written`

	insertEventsIfChanged = `, written AS (
		INSERT INTO outbox (event_id, session_id, chat_id, name, data, created_at, after_seq, maybe_published, writer)
		SELECT o.*, @writer FROM changed, ` + eventRows + ` o RETURNING id)
	SELECT (SELECT array_agg(id ORDER BY id) FROM written), ` + behind

	eventRows = `unnest(
		@event_ids::text[], @event_sessions::text[], @event_chats::text[], @event_names::text[], @event_data::json[],
		@event_times::timestamptz[], @event_after::bigint[], @event_maybe::boolean[])`

	behind = `EXISTS (
		SELECT 1 FROM outbox before
		WHERE  before.session_id = ANY (@changed_sessions::text[]) AND before.writer <> @writer AND before.seq IS NULL)`
)

// withEvents returns the statement with the insertion of its events, if it applies.
func (s Statement) withEvents() string {
	return `WITH ` + s.Parts + insertEventsIfChanged + s.Columns + `
	FROM   changed` + s.From
}

// lookedFor is how long after a failover the log is searched for events of the former
// primary. Their ids alone suffice for two minutes.
const lookedFor = time.Hour

// eventArgs returns the parameters of the insertion.
func (o *Outbox) eventArgs(events *Events) pgx.NamedArgs {
	if len(events.derived) > 0 && o.db.failedOver(lookedFor) {
		for _, id := range events.derived {
			events.maybePublished(id, 0)
		}
	}

	n := len(events.list)
	ids, sessions, chats := make([]string, n), make([]domain.SessionID, n), make([]domain.ChatID, n)
	names, data, times := make([]string, n), make([]string, n), make([]time.Time, n)
	after, maybe := make([]int64, n), make([]bool, n)

	for i, e := range events.list {
		ids[i], sessions[i], chats[i], names[i], data[i], times[i] = e.ID, e.SessionID, e.ChatID, e.Name, string(e.Data), e.At

		seq, unsure := events.maybe[e.ID]
		if !unsure {
			seq = o.reached.Load()
		}

		after[i], maybe[i] = int64(seq), unsure //nolint:gosec // a sequence is below 2^63
	}

	changed := slices.Compact(slices.Sorted(slices.Values(sessions)))

	return pgx.NamedArgs{
		"changed_sessions": changed,
		"event_ids":        ids, "event_sessions": sessions, "event_chats": chats, "event_names": names, "event_data": data,
		"event_times": times, "event_after": after, "event_maybe": maybe, "writer": o.writer,
	}
}

// rows returns the outbox rows of the events, by their ids.
func (e *Events) rows(ids []int64, behind bool) []outboxRow {
	rows := make([]outboxRow, len(ids))
	for i, id := range ids {
		event := e.list[i]
		after, maybe := e.maybe[event.ID]
		rows[i] = outboxRow{id: id, event: event, after: after, maybe: maybe, behind: behind}
	}

	return rows
}

// rowsOfSession reads unpublished rows of one session behind a row, in order.
func (db *DB) rowsOfSession(ctx context.Context, session string, behind int64, limit int) ([]outboxRow, error) {
	found, err := db.Pool.Query(ctx, `
		SELECT id, event_id, session_id, chat_id, name, data, created_at, after_seq, maybe_published, coalesce(lost_seq, 0)
		FROM   outbox WHERE session_id = $1 AND seq IS NULL AND id > $2 ORDER BY id LIMIT $3`, session, behind, limit)
	if err != nil {
		return nil, err
	}

	return pgx.CollectRows(found, func(row pgx.CollectableRow) (r outboxRow, err error) {
		e := &r.event
		return r, row.Scan(&r.id, &e.ID, &e.SessionID, &e.ChatID, &e.Name, &e.Data, &e.At, &r.after, &r.maybe, &e.LostSeq)
	})
}

// HighWater returns how far the event log is known to have come, by published
// events and by the flushed text of open turns; 0 before the first event.
func (db *DB) HighWater(ctx context.Context) (uint64, error) {
	var mark int64

	err := db.Pool.QueryRow(ctx, `
		SELECT greatest((SELECT coalesce(max(high_water), 0) FROM event_log),
		                (SELECT coalesce(max(greatest(seq, after_seq)), 0) FROM outbox),
		                (SELECT coalesce(max(flushed_seq), 0) FROM entries WHERE status IN ('streaming', 'paused')))`).Scan(&mark)

	return uint64(mark), err //nolint:gosec // not negative
}

// sessionsLeft returns sessions with rows that have waited for longer than age, with
// the number of such rows, those that waited longest first.
func (db *DB) sessionsLeft(ctx context.Context, age time.Duration, limit int) (map[string]int, []string, error) {
	found, err := db.Pool.Query(ctx, `
		SELECT session_id, count(*) FROM outbox
		WHERE  seq IS NULL AND created_at <= now() - $1::interval
		GROUP  BY session_id ORDER BY min(id) LIMIT $2`, age, limit)
	if err != nil {
		return nil, nil, err
	}

	rows, order := map[string]int{}, []string{}

	var (
		session string
		n       int
	)

	_, err = pgx.ForEachRow(found, []any{&session, &n}, func() error {
		rows[session], order = n, append(order, session)
		return nil
	})

	return rows, order, err
}
