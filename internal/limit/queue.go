package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of Queue.Acquire.
var (
	ErrFull   = errors.New("the queue is full")
	ErrWaited = errors.New("timed out waiting for a slot")
)

// QueueConfig describes a Queue.
type QueueConfig struct {
	Slots   int           // requests that run concurrently
	Share   int           // slots of one key; 0: all
	Waiting int           // requests that wait
	Wait    time.Duration // the longest wait, where Acquire names none; 0: no bound
}

// Queue limits concurrent requests. Further requests wait: in FIFO order per key, and in turns
// between keys. A free slot goes to the key with the fewest running requests, among equals to the
// key with the least recent slot, so that a busy key delays another key by a single request. A
// full queue rejects the last request of the key with the most waiting requests to accept a
// request of a key with fewer. Keys without requests use no memory. It is safe for concurrent
// use.
type Queue struct {
	cfg QueueConfig

	mu      sync.Mutex
	running int
	waiting int
	granted uint64 // slots so far: the clock of the turns
	arrived uint64 // requests so far
	lines   map[string]*line
	empty   chan struct{} // closed when no request runs or waits; nil: no waiter
}

// line is the requests of one key.
type line struct {
	running int
	last    uint64 // sequence of the key's last slot, or of its arrival
	tickets []*ticket
}

// ticket is a waiting request.
type ticket struct {
	ready chan error // buffered: nil with a slot, ErrFull without one
	order uint64     // of arrival
}

// NewQueue returns a new queue.
func NewQueue(cfg QueueConfig) *Queue {
	if cfg.Share == 0 {
		cfg.Share = cfg.Slots
	}

	return &Queue{cfg: cfg, lines: map[string]*line{}}
}

// Acquire returns when the request may run; release ends it once. The error is ErrFull,
// ErrWaited or the cause of the context's end.
func (q *Queue) Acquire(ctx context.Context, key string) (release func(), err error) {
	return q.AcquireWithin(ctx, key, q.cfg.Wait)
}

// AcquireWithin is Acquire with another longest wait; 0: no bound.
func (q *Queue) AcquireWithin(ctx context.Context, key string, wait time.Duration) (release func(), err error) {
	t, err := q.enter(key)
	if err != nil {
		return nil, err
	}

	var late <-chan time.Time

	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()

		late = timer.C
	}

	select {
	case err = <-t.ready:
		if err != nil {
			return nil, err
		}

		return q.releaser(key), nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
		err = ErrWaited
	}

	if q.leave(key, t) {
		return nil, err
	}

	if <-t.ready == nil { // it got its slot in the meantime
		q.releaser(key)()
	}

	return nil, err
}

// enter adds a ticket, which is ready already where a slot is free.
func (q *Queue) enter(key string) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	l := q.lines[key]
	if l == nil {
		l = &line{last: q.granted}
	}

	runs := q.running < q.cfg.Slots && l.running < q.cfg.Share && len(l.tickets) == 0
	if !runs && q.waiting >= q.cfg.Waiting && !q.makeRoom(len(l.tickets)) {
		return nil, ErrFull
	}

	q.lines[key] = l
	q.arrived++
	t := &ticket{ready: make(chan error, 1), order: q.arrived}
	l.tickets = append(l.tickets, t)
	q.waiting++
	q.assign()

	return t, nil
}

// makeRoom rejects the last ticket of the key with the most tickets, if it has more than have+1, the
// count that the key of the new ticket would have.
func (q *Queue) makeRoom(have int) bool {
	longest, of := "", 0

	for key, l := range q.lines {
		if len(l.tickets) > of {
			longest, of = key, len(l.tickets)
		}
	}

	if of <= have+1 {
		return false
	}

	last := q.lines[longest].tickets[of-1]
	q.remove(longest, last)

	last.ready <- ErrFull

	return true
}

// remove removes a ticket from its key's queue, and reports whether it was queued.
func (q *Queue) remove(key string, t *ticket) bool {
	l := q.lines[key]
	if l == nil {
		return false
	}

	at := slices.Index(l.tickets, t)
	if at < 0 {
		return false
	}

	l.tickets = slices.Delete(l.tickets, at, at+1)
	q.waiting--
	q.tidy(key)

	return true
}

// tidy removes a key without requests, and signals an empty queue.
func (q *Queue) tidy(key string) {
	if l := q.lines[key]; l.running == 0 && len(l.tickets) == 0 {
		delete(q.lines, key)
	}

	if q.empty != nil && len(q.lines) == 0 {
		close(q.empty)
		q.empty = nil
	}
}

// assign grants the free slots.
func (q *Queue) assign() {
	for q.running < q.cfg.Slots {
		var next *line

		for _, l := range q.lines {
			if len(l.tickets) > 0 && l.running < q.cfg.Share && (next == nil || l.before(next)) {
				next = l
			}
		}

		if next == nil {
			return
		}

		t := next.tickets[0]
		next.tickets = slices.Delete(next.tickets, 0, 1)
		q.waiting--
		q.running++
		q.granted++
		next.running++
		next.last = q.granted

		t.ready <- nil
	}
}

func (l *line) before(other *line) bool {
	if l.running != other.running {
		return l.running < other.running
	}

	if l.last != other.last {
		return l.last < other.last
	}

	return l.tickets[0].order < other.tickets[0].order
}

// leave removes the ticket of a request that gave up. It reports false when the ticket was
// answered in the meantime.
func (q *Queue) leave(key string, t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.remove(key, t)
}

func (q *Queue) releaser(key string) func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()

		q.running--
		q.lines[key].running--
		q.tidy(key)
		q.assign()
	})
}

// Idle returns a channel that is closed once no request runs or waits.
func (q *Queue) Idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.empty == nil {
		q.empty = make(chan struct{})
	}

	empty := q.empty
	if len(q.lines) == 0 {
		close(q.empty)
		q.empty = nil
	}

	return empty
}

// Load returns how many requests run and wait.
func (q *Queue) Load() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.running, q.waiting
}

// Free reports whether a request would run immediately.
func (q *Queue) Free() bool {
	running, waiting := q.Load()
	return running < q.cfg.Slots && waiting == 0
}
