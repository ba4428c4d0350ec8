// Package limit limits concurrent work: Keyed by keys such as users and sessions, Queue with fair
// queueing, Budget for bytes in memory. It does not depend on the work, and creates no client
// errors: each caller has its own codes.
package limit

import (
	"context"
	"slices"
	"sync"
)

// Bound is how many may run concurrently for one key; 0: no bound.
type Bound[K comparable] struct {
	Key K
	Max int
}

// FullError reports the first key whose bound is reached.
type FullError[K comparable] struct {
	Key   K
	cause error // cause of the end of the wait; nil: no wait
}

// Error implements error.
func (e *FullError[K]) Error() string { return "the limit of concurrent requests is reached" }

// Unwrap returns the cause of the end of the wait.
func (e *FullError[K]) Unwrap() error { return e.cause }

// Keyed is a counting semaphore by key. A request can have several keys, such as its user and the
// global key, and acquires a slot of each or of none. The zero value is ready to use; keys
// without running work use no memory. It is safe for concurrent use.
type Keyed[K comparable] struct {
	mu      sync.Mutex
	running map[K]int
	waiting []*waiter[K] // in the order of arrival
}

type waiter[K comparable] struct {
	bounds  []Bound[K]
	granted chan struct{} // closed with the slots
}

// Try acquires a slot of every bound, or returns a *FullError. release releases them and is
// idempotent.
func (k *Keyed[K]) Try(bounds ...Bound[K]) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if full := k.full(bounds); full != nil {
		return nil, full
	}

	return k.take(bounds), nil
}

// Acquire is Try that waits until the context ends; the error is a *FullError then. Slots
// go to the first waiter that they are enough for.
func (k *Keyed[K]) Acquire(ctx context.Context, bounds ...Bound[K]) (release func(), err error) {
	k.mu.Lock()

	if k.full(bounds) == nil {
		defer k.mu.Unlock()
		return k.take(bounds), nil
	}

	w := &waiter[K]{bounds: bounds, granted: make(chan struct{})}
	k.waiting = append(k.waiting, w)
	k.mu.Unlock()

	select {
	case <-w.granted:
		return k.releaser(bounds), nil
	case <-ctx.Done():
	}

	k.mu.Lock()
	defer k.mu.Unlock()

	at := slices.Index(k.waiting, w)
	if at < 0 { // it got its slots in the meantime
		return k.releaser(bounds), nil
	}

	k.waiting = slices.Delete(k.waiting, at, at+1)
	full := k.full(bounds) // the bound is reached, or the slots would have been granted
	full.cause = context.Cause(ctx)

	return nil, full
}

// Running returns how many run for a key.
func (k *Keyed[K]) Running(key K) int {
	k.mu.Lock()
	defer k.mu.Unlock()

	return k.running[key]
}

// full returns the first bound without a free slot; nil: none.
func (k *Keyed[K]) full(bounds []Bound[K]) *FullError[K] {
	for _, b := range bounds {
		if b.Max > 0 && k.running[b.Key] >= b.Max {
			return &FullError[K]{Key: b.Key}
		}
	}

	return nil
}

func (k *Keyed[K]) take(bounds []Bound[K]) (release func()) {
	if k.running == nil {
		k.running = map[K]int{}
	}

	for _, b := range bounds {
		k.running[b.Key]++
	}

	return k.releaser(bounds)
}

func (k *Keyed[K]) releaser(bounds []Bound[K]) func() {
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()

		for _, b := range bounds {
			if k.running[b.Key]--; k.running[b.Key] == 0 {
				delete(k.running, b.Key)
			}
		}

		k.waiting = slices.DeleteFunc(k.waiting, func(w *waiter[K]) bool {
			if k.full(w.bounds) != nil {
				return false
			}

			k.take(w.bounds)
			close(w.granted)

			return true
		})
	})
}
