package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// EventLog is where events go after the state that they report is committed.
type EventLog interface {
	// Publish appends the event and returns its sequence. An event that was
	// published within the last two minutes is not appended again.
	Publish(ctx context.Context, e domain.Event) (seq uint64, err error)
	// Repeat is Publish for an event that the log may hold behind the sequence
	// after, however long ago it was published.
	Repeat(ctx context.Context, e domain.Event, after uint64) (seq uint64, err error)
	// Lost returns those of the sequences whose events the log held and lost, as
	// in a power cut. It asks the log: an error is no answer.
	Lost(ctx context.Context, seqs []uint64) ([]uint64, error)
}

// Outbox commits state and events in one transaction (transactional outbox). The
// events are written to the table outbox and published after the commit, by the
// publish queue of their session: nothing that commits waits for the event log. The
// row is the guarantee; what a crash leaves behind is published from the rows.
type Outbox struct {
	db        *DB
	log       EventLog
	logger    *slog.Logger
	writer    string // marks the rows of this Outbox
	queue     *publishQueue
	published *publishedRows
	changed   changedSessions
	reached   atomic.Uint64 // a sequence that the event log is known to have reached
	waiters   func(domain.ChatWaiter)
}

// NewOutbox returns an outbox over the database and the event log. Run must be
// running for published rows to be deleted.
func NewOutbox(db *DB, log EventLog, logger *slog.Logger) *Outbox {
	o := &Outbox{
		db: db, log: log, logger: logger, writer: domain.NewID(), published: newPublishedRows(), waiters: func(domain.ChatWaiter) {},
	}
	o.queue = newPublishQueue(o)

	return o
}

// OnChatEnded has notify called for each workflow that waits for a chat, after the commit
// of the chat's end. Notify must not block, and is not called when the process dies before:
// a periodic job repairs that. It is set before the first transaction.
func (o *Outbox) OnChatEnded(notify func(domain.ChatWaiter)) { o.waiters = notify }

// Events are the events of one transaction, in their order.
type Events struct {
	list    []domain.Event
	maybe   map[string]uint64 // by event id: published already, perhaps, behind this sequence
	derived []string          // ids that an event has each time
}

// Empty reports whether there is no event.
func (e *Events) Empty() bool { return len(e.list) == 0 }

// Emit adds an event. Data is marshalled at once and must be an object.
func (e *Events) Emit(sessionID domain.SessionID, chatID domain.ChatID, name string, data any) error {
	return e.emit(domain.NewID(), sessionID, chatID, name, data)
}

// EmitDerived is Emit for an event whose id is derived from what it reports, which happens
// once. After a failover the log may have it already, although the database lost the commit.
func (e *Events) EmitDerived(id string, sessionID domain.SessionID, chatID domain.ChatID, name string, data any) error {
	e.derived = append(e.derived, id)
	return e.emit(id, sessionID, chatID, name, data)
}

func (e *Events) emit(id string, sessionID domain.SessionID, chatID domain.ChatID, name string, data any) error {
	payload, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}

	e.Add(domain.Event{ID: id, SessionID: sessionID, ChatID: chatID, Name: name, At: time.Now().UTC(), Data: payload})

	return nil
}

// Add adds an event that was not published yet.
func (e *Events) Add(event domain.Event) { e.list = append(e.list, event) }

// AddMaybePublished adds an event that may be in the event log already, behind a
// sequence.
func (e *Events) AddMaybePublished(event domain.Event, after uint64) {
	e.maybePublished(event.ID, after)
	e.Add(event)
}

func (e *Events) maybePublished(id string, after uint64) {
	if e.maybe == nil {
		e.maybe = map[string]uint64{}
	}

	e.maybe[id] = after
}

// Tx is a transaction with the events that its commit publishes.
type Tx struct {
	pgx.Tx
	Events
	last    *Statement
	waiters []domain.ChatWaiter
}

// ChatEnded has the waiter of a chat that ends in the transaction notified after the commit.
func (tx *Tx) ChatEnded(waiter domain.ChatWaiter) {
	if waiter.WorkflowID != "" {
		tx.waiters = append(tx.waiters, waiter)
	}
}

// Statement is a statement that is sent together with the insertion of its events.
type Statement struct {
	// Parts are common table expressions, one of which is named changed and returns
	// one row if the statement applies, else none.
	Parts string
	Args  pgx.NamedArgs

	Columns string // of what is returned; empty, or with a comma before the first
	From    string // joins that Columns need, after changed
}

// Last sets the last statement of the transaction, which goes in one round trip with
// the insertion of its events. Its Columns are not read.
func (tx *Tx) Last(parts string, args pgx.NamedArgs) {
	tx.last = &Statement{Parts: parts, Args: args}
}

// Update runs fn in a transaction and passes its events to the publish queue, in
// their order and behind those of the session's transactions before. A deadlock or a
// serialization failure runs fn again, so fn must have no effect but through its Tx.
func (o *Outbox) Update(ctx context.Context, fn func(*Tx) error) error {
	var (
		tickets []*ticket
		rows    []outboxRow
		waiters []domain.ChatWaiter
	)

	err := o.db.InTx(ctx, func(started pgx.Tx) error {
		cancelAll(tickets) // of a try that the database refused
		tickets, waiters = nil, nil

		tx := Tx{Tx: started}
		if err := fn(&tx); err != nil {
			return err
		}

		if waiters = tx.waiters; tx.Empty() {
			return nil
		}

		var err error
		if rows, err = o.insertEvents(ctx, &tx); err != nil {
			return err
		}
		// Before the commit: whatever reads the committed state and commits next, such
		// as the answer to a question, gets a later ticket.
		tickets = o.takeTickets(tx.list)

		return nil
	})
	o.hand(tickets, rows, err)

	if err == nil {
		for _, waiter := range waiters {
			o.waiters(waiter)
		}
	}

	return err
}

// UpdateOne is Update for a transaction that is one statement: the events go with it.
// A statement that does not apply returns domain.ErrFenced and publishes nothing. Dest
// is where its Columns go.
func (o *Outbox) UpdateOne(ctx context.Context, events *Events, statement Statement, dest ...any) error {
	tickets := o.takeTickets(events.list)
	query, args := statement.withEvents(), o.eventArgs(events)
	maps.Copy(args, statement.Args)

	var (
		ids    []int64
		behind bool
	)

	err := retryTx(ctx, func() error {
		return o.db.Pool.QueryRow(ctx, query, args).Scan(append([]any{&ids, &behind}, dest...)...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		o.hand(tickets, nil, nil)
		return domain.ErrFenced
	}

	o.hand(tickets, events.rows(ids, behind), err)

	return err
}

// takeTickets takes a ticket for each session of the events.
func (o *Outbox) takeTickets(events []domain.Event) []*ticket {
	var tickets []*ticket

	taken := map[domain.SessionID]bool{}
	for _, e := range events {
		if !taken[e.SessionID] {
			taken[e.SessionID] = true
			tickets = append(tickets, o.queue.take(e.SessionID))
		}
	}

	return tickets
}

// hand gives the committed rows to the publish queue. After an error the
// transaction may be committed or not: what it wrote is read from the outbox then.
func (o *Outbox) hand(tickets []*ticket, rows []outboxRow, err error) {
	for _, t := range tickets {
		if err != nil || len(rows) > 0 {
			o.changed.add(t.session)
		}

		switch {
		case err != nil:
			t.unknown()
		case len(rows) == 0:
			t.cancel()
		case len(tickets) == 1:
			t.ready(rows)
		default:
			var own []outboxRow

			for _, row := range rows {
				if string(row.event.SessionID) == t.session {
					own = append(own, row)
				}
			}

			t.ready(own)
		}
	}
}

func cancelAll(tickets []*ticket) {
	for _, t := range tickets {
		t.cancel()
	}
}

// Published returns when all events of the session's transactions that were committed
// in this process before the call are in the event log.
func (o *Outbox) Published(ctx context.Context, sessionID domain.SessionID) error {
	return o.queue.await(ctx, string(sessionID))
}

// Flush is Published for all sessions.
func (o *Outbox) Flush(ctx context.Context) error {
	for _, session := range o.queue.active() {
		if err := o.queue.await(ctx, session); err != nil {
			return err
		}
	}

	return nil
}

// reach notes that the event log has reached seq.
func (o *Outbox) reach(seq uint64) {
	for {
		have := o.reached.Load()
		if seq <= have || o.reached.CompareAndSwap(have, seq) {
			return
		}
	}
}
