package pg

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"everloop/domain"
)

const (
	// sessionCopies and allCopies bound the memory of events that wait, in bytes.
	// What is beyond them is read from the outbox when its turn comes.
	sessionCopies = 1 << 20
	allCopies     = 64 << 20

	// firstRetry and lastRetry bound the pause before a session that failed is
	// tried again; at most maxConcurrentRetries are, so that a log that is away costs little.
	firstRetry           = 250 * time.Millisecond
	lastRetry            = 10 * time.Second
	maxConcurrentRetries = 32
	// wakeEvery bounds how often a success ends the pauses of all others.
	wakeEvery = 250 * time.Millisecond
)

// publishQueue publishes the events of committed transactions: those of a session one
// after the other in the order of their tickets, sessions next to each other. A
// session has an entry while it has events and a goroutine while they are published.
type publishQueue struct {
	outbox *Outbox

	mu       sync.Mutex
	sessions map[string]*sessionQueue
	bytes    int // of all copies
	retries  int // sessions that are being tried again
	woken    time.Time
	closed   bool
}

// sessionQueue is the publish queue of one session, guarded by the mutex of all.
type sessionQueue struct {
	id       string
	tickets  []*ticket
	bytes    int
	fromRows bool // the outbox has events that no ticket holds
	running  bool // a goroutine publishes
	retry    *time.Timer
	failures int
	retrying bool // the goroutine counts among the retries
}

type ticketState int

const (
	ticketTaken ticketState = iota // its transaction is not committed yet
	ticketReady
	ticketVoid
)

// ticket orders a transaction in the publish queue of its session.
type ticket struct {
	queue   *publishQueue
	session string
	state   ticketState
	rows    []outboxRow
	bytes   int
	seen    int           // failovers before its transaction was committed
	done    chan struct{} // closed when the rows before it are published; nil: nothing waits for it
}

func newPublishQueue(o *Outbox) *publishQueue {
	return &publishQueue{outbox: o, sessions: map[string]*sessionQueue{}}
}

// take returns the next ticket of a session.
func (q *publishQueue) take(session domain.SessionID) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.takeLocked(string(session))
}

func (q *publishQueue) takeLocked(session string) *ticket {
	s := q.sessions[session]
	if s == nil {
		s = &sessionQueue{id: session}
		q.sessions[session] = s
	}

	t := &ticket{queue: q, session: session, seen: q.outbox.db.Failovers()}
	s.tickets = append(s.tickets, t)

	return t
}

// ready passes on the rows of a committed transaction.
func (t *ticket) ready(rows []outboxRow) {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()

	s := q.sessions[t.session]

	t.state = ticketReady
	for _, row := range rows {
		t.bytes += len(row.event.Data) + 256
	}

	if s.fromRows && !s.running {
		t.state = ticketVoid // its rows are read with the others
	} else {
		t.rows = rows

		s.bytes, q.bytes = s.bytes+t.bytes, q.bytes+t.bytes
		if len(rows) > 0 && rows[0].behind {
			s.fromRows = true
		}

		if s.bytes > sessionCopies || q.bytes > allCopies {
			q.dropCopies(s)
		}
	}

	q.start(s)
}

// cancel returns a ticket whose transaction was not committed.
func (t *ticket) cancel() { t.settle(false) }

// unknown returns a ticket whose transaction may be committed.
func (t *ticket) unknown() { t.settle(true) }

func (t *ticket) settle(readRows bool) {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()

	s := q.sessions[t.session]
	if s == nil || t.state == ticketVoid {
		return // its turn has come already
	}

	t.state = ticketVoid
	s.fromRows = s.fromRows || readRows
	q.start(s)
}

// dropCopies leaves the events of a session to the outbox.
func (q *publishQueue) dropCopies(s *sessionQueue) {
	for _, t := range s.tickets {
		if t.state != ticketReady {
			continue
		}

		q.release(s, t)

		if t.done == nil {
			t.state = ticketVoid
		}
	}

	s.tickets = slices.DeleteFunc(s.tickets, func(t *ticket) bool { return t.state == ticketVoid })
	s.fromRows = true
}

// release forgets the copies of a ticket.
func (q *publishQueue) release(s *sessionQueue, t *ticket) {
	if t.rows != nil {
		s.bytes, q.bytes = s.bytes-t.bytes, q.bytes-t.bytes
		t.rows = nil
	}
}

// start lets a goroutine publish what is ready, unless one does or the session
// pauses after a failure. The mutex is held.
func (q *publishQueue) start(s *sessionQueue) {
	if s.running || s.retry != nil || !q.due(s) {
		return
	}

	s.running = true
	go q.drain(s)
}

// due reports whether a session has something to publish now, and forgets a session
// that has nothing at all.
func (q *publishQueue) due(s *sessionQueue) bool {
	for len(s.tickets) > 0 && s.tickets[0].state == ticketVoid {
		s.tickets[0] = nil
		s.tickets = s.tickets[1:]
	}

	if s.fromRows && !q.closed {
		return true
	}

	if len(s.tickets) == 0 {
		delete(q.sessions, s.id)
		return false
	}

	return s.tickets[0].state == ticketReady && !q.closed
}

// drain publishes until nothing is left or something fails.
func (q *publishQueue) drain(s *sessionQueue) {
	for {
		tickets, rows, fromRows := q.next(s)
		if tickets == nil && !fromRows {
			return
		}

		var err error
		if fromRows {
			err = q.outbox.publishRows(s.id)
		} else if left, failed := q.outbox.publishCopies(rows); failed != nil {
			err = failed

			q.keep(s, tickets[0], left)
		}

		if err != nil {
			q.failed(s, fromRows, err)
			return
		}

		q.succeeded(s, tickets)
	}
}

// next returns the ticket whose turn it is, or, where the outbox must be read, all
// that are ready, whose rows are among those read. Neither: the goroutine ends.
func (q *publishQueue) next(s *sessionQueue) (tickets []*ticket, rows []outboxRow, fromRows bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if !q.due(s) {
		s.running = false
		q.endRetry(s)

		return nil, nil, false
	}

	if !s.fromRows && s.tickets[0].seen != q.outbox.db.Failovers() {
		q.dropCopies(s) // the new primary may lack their transactions
	}

	if !s.fromRows {
		return []*ticket{s.tickets[0]}, s.tickets[0].rows, false
	}

	s.fromRows = false
	for _, t := range s.tickets {
		if t.state == ticketReady {
			q.release(s, t)
			tickets = append(tickets, t)
		}
	}

	return tickets, nil, true
}

// keep puts back the rows of a ticket that are not published.
func (q *publishQueue) keep(s *sessionQueue, t *ticket, left []outboxRow) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if t.rows != nil {
		t.rows = left
	}
}

// succeeded ends the turn of tickets.
func (q *publishQueue) succeeded(s *sessionQueue, tickets []*ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()

	for _, t := range tickets {
		q.release(s, t)

		t.state = ticketVoid
		if t.done != nil {
			close(t.done)
		}
	}

	if s.failures > 0 {
		s.failures = 0
		q.endRetry(s)
		q.wake()
	}
}

// failed pauses the session.
func (q *publishQueue) failed(s *sessionQueue, fromRows bool, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	s.running = false
	s.fromRows = s.fromRows || fromRows
	q.endRetry(s)

	if q.closed {
		return
	}

	pause := min(lastRetry, firstRetry<<min(s.failures, 10))
	s.failures++
	q.retryIn(s, pause/2+rand.N(pause/2))

	if s.failures == 1 || s.failures%16 == 0 {
		q.outbox.logger.Warn("failed to publish events; retrying", "session_id", s.id, "failures", s.failures, "error", cause)
	}
}

func (q *publishQueue) retryIn(s *sessionQueue, pause time.Duration) {
	s.retry = time.AfterFunc(pause, func() { q.retryNow(s) })
}

// retryNow tries a session again, or later when many others are being tried.
func (q *publishQueue) retryNow(s *sessionQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.closed {
		return
	}

	if q.retries >= maxConcurrentRetries {
		q.retryIn(s, firstRetry+rand.N(firstRetry))
		return
	}

	s.retry = nil
	q.start(s)

	if s.running {
		s.retrying = true
		q.retries++
	}
}

func (q *publishQueue) endRetry(s *sessionQueue) {
	if s.retrying {
		s.retrying = false
		q.retries--
	}
}

// wake ends the pauses of all sessions: the log takes events again.
func (q *publishQueue) wake() {
	if time.Since(q.woken) < wakeEvery {
		return
	}

	q.woken = time.Now()
	for _, s := range q.sessions {
		if s.retry != nil && s.retry.Stop() {
			q.retryIn(s, rand.N(firstRetry))
		}
	}
}

// readRows makes the session's rows in the outbox due. It is false when the session
// is being published or pauses already.
func (q *publishQueue) readRows(session string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()

	if s := q.sessions[session]; s != nil && (s.running || s.retry != nil) {
		return false
	}

	t := q.takeLocked(session)
	t.state = ticketVoid
	s := q.sessions[session]
	s.fromRows = true
	q.start(s)

	return true
}

// await returns when the turn of all that is in the session's queue has come.
func (q *publishQueue) await(ctx context.Context, session string) error {
	q.mu.Lock()

	s := q.sessions[session]
	if s == nil {
		q.mu.Unlock()
		return nil
	}

	t := q.takeLocked(session)
	t.state, t.done = ticketReady, make(chan struct{})

	q.start(s)
	q.mu.Unlock()

	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		t.cancel()
		return ctx.Err()
	}
}

// active returns the sessions that have events to publish.
func (q *publishQueue) active() []string {
	q.mu.Lock()
	defer q.mu.Unlock()

	list := make([]string, 0, len(q.sessions))
	for id := range q.sessions {
		list = append(list, id)
	}

	return list
}

// pausing counts the sessions that pause after a failure.
func (q *publishQueue) pausing() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()

	for _, s := range q.sessions {
		if s.retry != nil {
			n++
		}
	}

	return n
}

// close ends all retries; what is left stays in the outbox.
func (q *publishQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.closed = true
	for _, s := range q.sessions {
		if s.retry != nil {
			s.retry.Stop()
			s.retry = nil
		}
	}
}
