package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// leftSessions is how many sessions one call looks at, and leftRows how many
	// published rows it removes.
	leftSessions = 256
	leftRows     = 5000
	// leftWait bounds how long a call waits for what it started to publish.
	leftWait = 10 * time.Second
	// removeAge is the age at which published rows are removed whose process did not.
	removeAge = 10 * keptFor
)

// Recover publishes what processes that died have left in the outbox. Nothing waits
// for it: a session's next transaction publishes the rows before its own first.
func (o *Outbox) Recover(ctx context.Context) error {
	if mark, err := o.db.HighWater(ctx); err == nil {
		o.reach(mark)
	}

	for {
		rows, started, err := o.publishLeft(ctx, 0)
		if err != nil || len(rows) < leftSessions || started == 0 {
			return err
		}
	}
}

// PublishLeft publishes what has been in the outbox for longer than age, and returns how
// many events that were. The trouble of one session holds no other back: each is
// published by its queue, and one that fails pauses. Rows that are published and
// were not removed by their process are removed.
func (o *Outbox) PublishLeft(ctx context.Context, age time.Duration) (published int, err error) {
	_, published, err = o.publishLeft(ctx, age)
	return published, errors.Join(err, o.removeLeft(ctx))
}

// publishLeft lets the queues publish what is older than age, and waits for them, but
// not for those that fail. It gives the sessions that it found, with their rows.
func (o *Outbox) publishLeft(ctx context.Context, age time.Duration) (left map[string]int, published int, err error) {
	left, order, err := o.db.sessionsLeft(ctx, age, leftSessions+o.queue.pausing())
	if err != nil {
		return nil, 0, err
	}

	var started []string

	for _, session := range order {
		if o.queue.readRows(session) {
			started = append(started, session)
		}
	}

	waiting, cancel := context.WithTimeout(ctx, leftWait)
	defer cancel()

	for _, session := range started {
		if o.queue.await(waiting, session) == nil {
			published += left[session]
		}
	}

	return left, published, ctx.Err()
}

// removeLeft removes rows that were published longer than removeAge ago.
func (o *Outbox) removeLeft(ctx context.Context) error {
	rows, err := o.publishedBefore(ctx, removeAge, 0)
	if err != nil || len(rows) == 0 {
		return err
	}

	return o.remove(ctx, rows)
}

// Requeue makes the rows unpublished whose events the log has lost. A process calls
// it before its first transaction, so that a session's lost events come before new ones.
func (o *Outbox) Requeue(ctx context.Context) error {
	for behind := int64(0); ; {
		rows, err := o.publishedBefore(ctx, 0, behind)
		if err != nil || len(rows) == 0 {
			return err
		}

		behind = rows[len(rows)-1].id
		if err := o.requeue(ctx, rows); err != nil {
			return err
		}
	}
}

// publishedBefore returns published rows of an age, in the order of their ids.
func (o *Outbox) publishedBefore(ctx context.Context, age time.Duration, behind int64) ([]publishedRow, error) {
	found, err := o.db.Pool.Query(ctx, `
		SELECT id, event_id, seq FROM outbox
		WHERE  seq IS NOT NULL AND published_at <= now() - $1::interval AND id > $3 ORDER BY id LIMIT $2`,
		age, leftRows, behind)
	if err != nil {
		return nil, err
	}

	return pgx.CollectRows(found, func(row pgx.CollectableRow) (r publishedRow, err error) {
		var seq int64

		err = row.Scan(&r.id, &r.event, &seq)
		r.seq = uint64(seq) //nolint:gosec // not negative

		return r, err
	})
}
