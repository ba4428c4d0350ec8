package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

var (
	errFull   = errors.New("the queue of the source is full")
	errWaited = errors.New("the request waited too long for the source")
)

// queue bounds the requests that a source works on at once. Others wait: first in,
// first out for one key, and in turns between keys, so that a busy key delays another
// one by a single request.
type queue struct {
	mu      sync.Mutex
	slots   int
	most    int // waiting requests
	running int
	waiting int
	order   []string // keys with waiting requests; the first has the next turn
	byKey   map[string][]*ticket
	empty   chan struct{} // closed when no request runs or waits; nil: that is not awaited
}

// ticket is a waiting request.
type ticket struct {
	key    string
	ready  chan error // buffered: nil with a slot, or why there is none
	placed bool       // it got its slot, or was rejected
}

func newQueue(slots, most int) *queue {
	return &queue{slots: slots, most: most, byKey: map[string][]*ticket{}}
}

// acquire returns when the request may run; release ends it. The longest wait is
// bounded, errWaited, and so is the queue, errFull.
func (q *queue) acquire(ctx context.Context, key string, longest time.Duration) (release func(), err error) {
	q.mu.Lock()
	if q.running < q.slots && q.waiting == 0 {
		q.running++
		q.mu.Unlock()

		return q.releaser(), nil
	}

	t, err := q.enter(key)
	q.mu.Unlock()

	if err != nil {
		return nil, err
	}

	timer := time.NewTimer(longest)
	defer timer.Stop()

	select {
	case err := <-t.ready:
		if err != nil {
			return nil, err
		}

		return q.releaser(), nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = errWaited
	}

	if got := q.leave(t); got {
		q.releaser()()
	}

	return nil, err
}

// enter adds a ticket. In a full queue the last ticket of the key with most of them
// makes room for a key with fewer.
func (q *queue) enter(key string) (*ticket, error) {
	if q.waiting >= q.most {
		longest := ""
		for other, tickets := range q.byKey {
			if longest == "" || len(tickets) > len(q.byKey[longest]) {
				longest = other
			}
		}

		if longest == "" || len(q.byKey[longest]) <= len(q.byKey[key])+1 {
			return nil, errFull
		}

		last := q.byKey[longest][len(q.byKey[longest])-1]
		q.remove(last)

		last.placed = true
		last.ready <- errFull
	}

	t := &ticket{key: key, ready: make(chan error, 1)}
	if len(q.byKey[key]) == 0 {
		q.order = append(q.order, key)
	}

	q.byKey[key] = append(q.byKey[key], t)
	q.waiting++

	return t, nil
}

// remove takes a waiting ticket out.
func (q *queue) remove(t *ticket) {
	tickets := q.byKey[t.key]
	if i := slices.Index(tickets, t); i >= 0 {
		tickets = slices.Delete(tickets, i, i+1)
		q.waiting--
	}

	q.byKey[t.key] = tickets
	if len(tickets) == 0 {
		delete(q.byKey, t.key)
		q.order = slices.DeleteFunc(q.order, func(key string) bool { return key == t.key })
	}
}

// leave reports whether the ticket got a slot while its request gave up.
func (q *queue) leave(t *ticket) (got bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if t.placed {
		return <-t.ready == nil
	}

	q.remove(t)
	t.placed = true

	return false
}

func (q *queue) releaser() func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()

		q.running--
		for q.running < q.slots && len(q.order) > 0 {
			key := q.order[0]
			next := q.byKey[key][0]
			q.remove(next)

			if len(q.byKey[key]) > 0 { // its next turn is after those of the others
				q.order = append(q.order[1:], key)
			}

			next.placed = true
			q.running++

			next.ready <- nil
		}

		q.emptied()
	})
}

// idle is closed once no request runs or waits.
func (q *queue) idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.empty == nil {
		q.empty = make(chan struct{})
	}

	empty := q.empty
	q.emptied()

	return empty
}

func (q *queue) emptied() {
	if q.empty != nil && q.running == 0 && q.waiting == 0 {
		close(q.empty)
		q.empty = nil
	}
}

// load returns how many requests run and wait.
func (q *queue) load() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.running, q.waiting
}

// free reports whether a request would run at once.
func (q *queue) free() bool {
	running, waiting := q.load()
	return running < q.slots && waiting == 0
}
