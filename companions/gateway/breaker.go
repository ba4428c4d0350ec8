package gateway

import (
	"sync"
	"time"
)

const (
	breakAfter = 5 // failures in a row
	breakFirst = 2 * time.Second
	breakMost  = time.Minute
)

// breaker keeps requests away from a source that cannot be reached. After some
// failures in a row it opens for a while; then one request tries again.
type breaker struct {
	mu     sync.Mutex
	failed int
	pause  time.Duration
	until  time.Time // it is open until then
	trying bool
}

// allow reports whether a request may be sent, and else when to come again. Every
// request that was allowed reports its outcome.
func (b *breaker) allow(now time.Time) (bool, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()

	switch {
	case b.failed < breakAfter:
		return true, 0
	case now.Before(b.until):
		return false, b.until.Sub(now)
	case b.trying:
		return false, time.Second
	}

	b.trying = true

	return true, 0
}

// open reports whether requests are kept away.
func (b *breaker) open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.failed >= breakAfter && (b.trying || now.Before(b.until))
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.failed, b.pause, b.trying = 0, 0, false
}

func (b *breaker) failedAt(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.trying = false
	if b.failed++; b.failed >= breakAfter {
		b.pause = min(max(2*b.pause, breakFirst), breakMost)
		b.until = now.Add(b.pause)
	}
}

// abandoned is the outcome of a request whose client left before the source answered.
func (b *breaker) abandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.trying = false
}
