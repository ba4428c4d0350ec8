package retry

import (
	"sync"
	"time"
)

// Delays between repetitions of the same signal or restart.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

// maxKeys is the maximum number of keys, which use some megabytes.
const maxKeys = 20_000

// Pauses doubles the delay between repetitions, by key, from a second to five minutes. A key that
// was not retried for long after its delay starts over. It is safe for concurrent use.
type Pauses struct {
	now func() time.Time

	mu   sync.Mutex
	keys map[string]pause
}

type pause struct {
	tries int
	until time.Time
	next  time.Duration
}

// NewPauses returns a new Pauses with a clock.
func NewPauses(now func() time.Time) *Pauses {
	return &Pauses{now: now, keys: map[string]pause{}}
}

// Try reports whether the key can be tried now, and the number of attempts including this one.
func (b *Pauses) Try(key string) (tries int, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	now := b.now()

	p, known := b.keys[key]
	switch {
	case known && now.Before(p.until):
		return p.tries, false
	case !known || now.After(p.until.Add(lastPause)):
		p = pause{next: firstPause}
	}

	if !known {
		b.makeRoom(now)
	}

	p.tries++
	p.until, p.next = now.Add(p.next), min(2*p.next, lastPause)
	b.keys[key] = p

	return p.tries, true
}

// makeRoom removes keys that would start over and, when there are none, some others.
func (b *Pauses) makeRoom(now time.Time) {
	if len(b.keys) < maxKeys {
		return
	}

	for key, p := range b.keys {
		if now.After(p.until.Add(lastPause)) {
			delete(b.keys, key)
		}
	}

	for key := range b.keys {
		if len(b.keys) < maxKeys/2 {
			return
		}

		delete(b.keys, key)
	}
}
