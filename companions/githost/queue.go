package githost

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"everloop/companions/edge"
)

// queue bounds how many git processes run at once. One key has at most a part of the
// slots; what waits gets them in the order of arrival, in turns between keys.
type queue struct {
	mu      sync.Mutex
	free    int
	most    int // slots of one key
	wait    time.Duration
	running map[string]int
	waiting []*ticket
	last    map[string]uint64 // when a key got its last slot, counted in slots
	count   uint64
}

type ticket struct {
	key   string
	ready chan struct{} // closed with a slot
}

// maxWaiting bounds the requests that wait.
const maxWaiting = 256

func newQueue(slots int, wait time.Duration) *queue {
	return &queue{free: slots, most: max(1, slots*3/4), wait: wait, running: map[string]int{}, last: map[string]uint64{}}
}

// acquire returns with a slot, which release frees, or with an error for the client.
func (q *queue) acquire(ctx context.Context, key string) (release func(), err error) {
	t := &ticket{key: key, ready: make(chan struct{})}

	q.mu.Lock()
	if len(q.waiting) >= maxWaiting {
		q.mu.Unlock()
		return nil, busy()
	}

	q.waiting = append(q.waiting, t)
	q.assign()
	q.mu.Unlock()

	timer := time.NewTimer(q.wait)
	defer timer.Stop()

	select {
	case <-t.ready:
		return sync.OnceFunc(func() { q.release(key) }), nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = busy()
	}

	q.mu.Lock()

	i := slices.Index(q.waiting, t)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()

	if i < 0 { // it got its slot in the meantime
		q.release(key)
	}

	return nil, err
}

func busy() error {
	return edge.Refuse(http.StatusTooManyRequests, "rate_limited", "too many git requests at once: try again")
}

func (q *queue) release(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.free++
	if q.running[key]--; q.running[key] == 0 {
		delete(q.running, key)
	}

	q.assign()
}

// assign gives free slots to waiting requests: the key with the fewest slots first, then
// the one that got its last slot longest ago.
func (q *queue) assign() {
	for q.free > 0 {
		best := -1
		for i, t := range q.waiting {
			if q.running[t.key] < q.most && (best < 0 || q.before(t.key, q.waiting[best].key)) {
				best = i
			}
		}

		if best < 0 {
			break
		}

		t := q.waiting[best]
		q.waiting = slices.Delete(q.waiting, best, best+1)
		q.free--
		q.running[t.key]++
		q.count++
		q.last[t.key] = q.count
		close(t.ready)
	}

	if len(q.waiting) == 0 {
		clear(q.last)
	}
}

func (q *queue) before(key, other string) bool {
	if q.running[key] != q.running[other] {
		return q.running[key] < q.running[other]
	}

	return q.last[key] < q.last[other]
}
