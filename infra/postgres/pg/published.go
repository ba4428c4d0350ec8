package pg

import (
	"context"
	"sync"
	"time"

	"everloop/internal/retry"

	"github.com/jackc/pgx/v5"
)

const (
	// notePause is how long published events are collected before their rows are
	// noted as published, and noteRows how many at most.
	notePause = 200 * time.Millisecond
	noteRows  = 2000
	// keptFor is how long a published row stays in the outbox: longer than two of
	// the intervals at which the event log is flushed to the disk.
	keptFor = 3 * time.Second
	// flushTime bounds how long Run continues to publish when it ends.
	flushTime = 5 * time.Second
)

// publishedRow is a row whose event is in the event log at seq, 0: nowhere.
type publishedRow struct {
	id    int64
	event string // its id: after the loss of a commit, another row may get the id of this one
	seq   uint64
	at    time.Time
}

// publishedRows are the rows that this process has published: first those that are
// not noted in the database yet, then, for keptFor, those that are.
type publishedRows struct {
	mu     sync.Mutex
	fresh  []publishedRow
	known  map[string]struct{} // events of fresh and of those being noted
	signal chan struct{}
}

func newPublishedRows() *publishedRows {
	return &publishedRows{known: map[string]struct{}{}, signal: make(chan struct{}, 1)}
}

func (p *publishedRows) add(row publishedRow) {
	p.mu.Lock()
	p.fresh = append(p.fresh, row)
	p.known[row.event] = struct{}{}
	p.mu.Unlock()

	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// has reports whether an event is published and its row not noted yet.
func (p *publishedRows) has(event string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	_, known := p.known[event]

	return known
}

func (p *publishedRows) take() []publishedRow {
	p.mu.Lock()
	defer p.mu.Unlock()

	rows := p.fresh[:min(len(p.fresh), noteRows)]

	p.fresh = p.fresh[len(rows):]
	if len(p.fresh) == 0 {
		p.fresh = nil
	}

	return rows
}

// putBack returns rows that could not be noted.
func (p *publishedRows) putBack(rows []publishedRow) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.fresh = append(rows, p.fresh...)
}

// noted forgets rows whose note is in the database.
func (p *publishedRows) noted(rows []publishedRow) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, row := range rows {
		delete(p.known, row.event)
	}
}

// Run notes published rows in batches, removes them from the outbox when the event
// log has them for certain, and keeps the log's high-water mark, until ctx ends. It
// first publishes, next to its work, what earlier processes have left.
func (o *Outbox) Run(ctx context.Context) {
	var recovering sync.WaitGroup
	recovering.Go(func() {
		if err := o.Recover(ctx); err != nil && ctx.Err() == nil {
			o.logger.Warn("failed to publish all events of earlier processes; the periodic job retries", "error", err)
		}
	})

	var kept []publishedRow // noted; the oldest first
	for ctx.Err() == nil {
		kept = o.noteOnce(ctx, kept)
	}

	recovering.Wait()

	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()

	if err := o.Flush(ending); err != nil {
		o.logger.Warn("failed to publish all events before the end; another process does", "error", err)
	}

	o.queue.close()

	for rows := o.published.take(); len(rows) > 0; rows = o.published.take() {
		if err := o.note(ending, rows); err != nil {
			o.logger.Warn("failed to note published events", "error", err)
			return
		}
	}
}

// noteOnce waits for published rows, or for the time at which kept ones go, and
// does what is due.
func (o *Outbox) noteOnce(ctx context.Context, kept []publishedRow) []publishedRow {
	var due <-chan time.Time

	if len(kept) > 0 {
		timer := time.NewTimer(time.Until(kept[0].at.Add(keptFor)))
		defer timer.Stop()

		due = timer.C
	}

	select {
	case <-ctx.Done():
		return kept
	case <-due:
	case <-o.published.signal:
		retry.Wait(ctx, notePause)
	}

	working := context.WithoutCancel(ctx)
	if rows := o.published.take(); len(rows) > 0 {
		if err := o.note(working, rows); err != nil {
			o.logger.Warn("failed to note published events; retrying", "error", err)
			o.published.putBack(rows)
			retry.Wait(ctx, time.Second)
			o.published.poke()

			return kept
		}

		o.published.noted(rows)

		kept = append(kept, rows...)
		if len(rows) == noteRows {
			o.published.poke()
		}
	}

	// Rows go some at a time, so that few statements remove many.
	n := 0
	for n < len(kept) && time.Since(kept[n].at) >= keptFor {
		n++
	}

	if n == 0 {
		return kept
	}

	if err := o.remove(working, kept[:n]); err != nil {
		// The periodic job removes them.
		o.logger.Warn("failed to remove published events from the outbox; the periodic job retries", "error", err)
	}

	return kept[n:]
}

// poke makes Run look again.
func (p *publishedRows) poke() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// note marks rows as published and keeps the high-water mark. Losing this to a power
// cut only means that the rows are looked for in the log.
func (o *Outbox) note(ctx context.Context, rows []publishedRow) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	ids, events := keys(rows)
	seqs, highest := make([]int64, len(rows)), int64(0)

	for i, row := range rows {
		seqs[i] = int64(row.seq) //nolint:gosec // a sequence is below 2^63
		highest = max(highest, seqs[i])
	}

	return o.db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			UPDATE outbox o SET seq = p.seq, published_at = now()
			FROM   unnest($1::bigint[], $2::text[], $3::bigint[]) AS p (id, event_id, seq)
			WHERE  o.id = p.id AND o.event_id = p.event_id`, ids, events, seqs)
		batch.Queue(`
			INSERT INTO event_log (high_water) VALUES ($1)
			ON CONFLICT (id) DO UPDATE SET high_water = greatest(event_log.high_water, excluded.high_water)`, highest)
	})
}

// remove deletes published rows, but for those that the event log lost: they are to
// be published again.
func (o *Outbox) remove(ctx context.Context, rows []publishedRow) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	if err := o.requeue(ctx, rows); err != nil {
		return err
	}

	ids, events := keys(rows)

	return o.db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			DELETE FROM outbox o USING unnest($1::bigint[], $2::text[]) AS p (id, event_id)
			WHERE  o.id = p.id AND o.event_id = p.event_id AND o.seq IS NOT NULL`, ids, events)
	})
}

// keys returns the ids of rows and of their events. A database that lost commits in a
// failover gives the ids of the lost rows to others.
func keys(rows []publishedRow) (ids []int64, events []string) {
	ids, events = make([]int64, len(rows)), make([]string, len(rows))
	for i, row := range rows {
		ids[i], events[i] = row.id, row.event
	}

	return ids, events
}

// requeue makes those of the rows unpublished whose events the log lost.
func (o *Outbox) requeue(ctx context.Context, rows []publishedRow) error {
	seqs := make([]uint64, len(rows))
	for i, row := range rows {
		seqs[i] = row.seq
	}

	gone, err := o.log.Lost(ctx, seqs)
	if err != nil || len(gone) == 0 {
		return err
	}

	ids, events := keys(rows)
	lost := make([]int64, len(gone))

	for i, seq := range gone {
		lost[i] = int64(seq) //nolint:gosec // a sequence is below 2^63
	}

	o.logger.Warn("the event log lost events that it had acknowledged; publishing them again", "events", len(lost))
	_, err = o.db.Pool.Exec(ctx, `
		UPDATE outbox o SET seq = NULL, published_at = NULL, lost_seq = o.seq
		FROM   unnest($1::bigint[], $2::text[]) AS p (id, event_id)
		WHERE  o.id = p.id AND o.event_id = p.event_id AND o.seq = ANY($3)`, ids, events, lost)

	return err
}
