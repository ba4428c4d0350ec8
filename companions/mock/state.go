package mock

import (
	"context"
	"errors"
	"sync"
)

// maxKeys bounds the counters of fail_times; beyond it they start afresh.
const maxKeys = 10_000

// counters counts equal requests, for fail_times.
type counters struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounters() *counters { return &counters{n: make(map[string]int)} }

// add counts one more request and reports whether it is among the first limit.
// The one after them starts the count afresh, so that the same order works
// again in the next conversation.
func (c *counters) add(key string, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.n[key] >= limit {
		delete(c.n, key)
		return false
	}

	if len(c.n) >= maxKeys {
		clear(c.n)
	}

	c.n[key]++

	return true
}

var errClosing = errors.New("the service is closing")

// gate holds streams open until they are released.
type gate struct {
	mu      sync.Mutex
	waiting int
	open    chan struct{} // closed by the next release
	done    chan struct{}
	once    sync.Once
}

func newGate() *gate {
	return &gate{open: make(chan struct{}), done: make(chan struct{})}
}

// wait blocks until a release, the client's leaving or the end of the service.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.waiting++

	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}()

	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.done:
		return errClosing
	}
}

// release lets every held stream go on and gives their number.
func (g *gate) release() int {
	g.mu.Lock()
	defer g.mu.Unlock()

	close(g.open)
	g.open = make(chan struct{})

	return g.waiting
}

// close ends every held stream, now and later.
func (g *gate) close() { g.once.Do(func() { close(g.done) }) }
