//go:build linux

package workspace

import (
	"context"
	"maps"
	"sync"
	"time"

	"everloop/internal/diskspace"
)

// usage caches the measured size of workspaces for a time proportional to the duration of the
// measurement, so that many small writes into a large tree do not each walk it.
type usage struct {
	mu    sync.Mutex
	known map[string]*measured
}

type measured struct {
	used    diskspace.Usage
	until   time.Time       // time of expiry
	grown   diskspace.Usage // written since the measurement, without deletions
	held    diskspace.Usage // reserved by writers and not yet written
	writers int             // number of writers that use it
}

const (
	measureShare = 20   // a measurement is valid for this multiple of its duration
	maxMeasured  = 4096 // maximum entries of the cache
)

// of returns the cache entry of a workspace; u must be locked.
func (u *usage) of(host string) *measured {
	if m := u.known[host]; m != nil {
		return m
	}

	if len(u.known) >= maxMeasured {
		maps.DeleteFunc(u.known, func(_ string, m *measured) bool { return m.writers == 0 })
	}

	if u.known == nil {
		u.known = map[string]*measured{}
	}

	m := &measured{}
	u.known[host] = m

	return m
}

// remeasure updates an expired entry. Writes during the measurement are added even if it saw
// them: it overestimates rather than underestimates.
func (w *Workspace) remeasure(ctx context.Context, m *measured) error {
	u := &w.store.usage
	u.mu.Lock()
	fresh, grown := time.Now().Before(m.until), m.grown
	u.mu.Unlock()

	if fresh {
		return nil
	}

	began := time.Now()

	used, err := diskspace.Measure(ctx, w.host, w.store.limits.usage())
	if err != nil {
		return err
	}

	u.mu.Lock()
	defer u.mu.Unlock()

	m.used = used.Plus(m.grown).Minus(grown)
	m.until = time.Now().Add(measureShare * time.Since(began))

	return nil
}

// spent adds a write to the cache entry.
func (w *Workspace) spent(n diskspace.Usage) {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	if m := u.known[w.host]; m != nil {
		m.used = m.used.Plus(n)
		m.grown = m.grown.Plus(diskspace.Usage{Bytes: max(0, n.Bytes), Inodes: max(0, n.Inodes)})
	}
}

// forget expires the cache entry after a deletion of unknown size.
func (w *Workspace) forget() {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	if m := u.known[w.host]; m != nil {
		m.until = time.Time{}
	}
}
