package mock

import (
	"context"
	"errors"
	"sync"
)

// maxKeys bounds the counters of fail_times; more keys reset them.
const maxKeys = 10_000

// counters counts equal requests for fail_times.
type counters struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounters() *counters { return &counters{n: make(map[string]int)} }

// add counts a request and reports whether it is among the first limit requests. The next
// one resets the count, so that the same script works again in the next conversation.
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

var errClosing = errors.New("service is closing")

// gate blocks streams until they are released.
type gate struct {
	mu      sync.Mutex
	waiters int
	open    chan struct{} // closed by the next release
	done    chan struct{} // closed by close
}

func newGate() *gate { return &gate{open: make(chan struct{}), done: make(chan struct{})} }

// wait blocks until a release, the end of ctx or the end of the service.
func (g *gate) wait(ctx context.Context) error {
	open := g.count(1)
	defer g.count(-1)
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.done:
		return errClosing
	}
}

func (g *gate) count(n int) (open chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiters += n
	return g.open
}

// release resumes all blocked streams and returns their number.
func (g *gate) release() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	g.open = make(chan struct{})
	return g.waiters
}

// close ends every held stream. It must be called once.
func (g *gate) close() { close(g.done) }
