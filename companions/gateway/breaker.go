package gateway

import (
	"sync"
	"time"
)

const (
	breakAfter = 5 // consecutive failures
	breakFirst = 2 * time.Second
	breakMost  = time.Minute
)

// breaker is the circuit breaker of a source. After breakAfter consecutive failures it opens
// for a while; then one request probes the source.
type breaker struct {
	mu     sync.Mutex
	failed int
	pause  time.Duration
	until  time.Time // time of the next probe
	probe  probe     // the running probe; 0: none
	probes probe     // number of probes so far
}

// probe is the number of a request that probes an open source; 0: a request that was allowed
// while the breaker was closed.
type probe int64

// allow reports whether a request may be sent, and if not, after which time to retry. Every
// allowed request must report its outcome with its probe.
func (b *breaker) allow(now time.Time) (ok bool, as probe, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()

	switch {
	case b.failed < breakAfter:
		return true, 0, 0
	case now.Before(b.until):
		return false, 0, b.until.Sub(now)
	case b.probe != 0:
		return false, 0, time.Second
	}

	b.probes++
	b.probe = b.probes

	return true, b.probe, 0
}

// open reports whether requests are blocked.
func (b *breaker) open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.failed >= breakAfter && (b.probe != 0 || now.Before(b.until))
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.failed, b.pause, b.probe = 0, 0, 0
}

func (b *breaker) failedAt(now time.Time, as probe) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.ended(as)

	if b.failed++; b.failed >= breakAfter {
		b.pause = min(max(2*b.pause, breakFirst), breakMost)
		b.until = now.Add(b.pause)
	}
}

// abandoned reports a request whose client disconnected before the source answered.
func (b *breaker) abandoned(as probe) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.ended(as)
}

// ended allows another probe if as is the current one.
func (b *breaker) ended(as probe) {
	if as != 0 && as == b.probe {
		b.probe = 0
	}
}
