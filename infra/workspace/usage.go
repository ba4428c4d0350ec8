//go:build linux

package workspace

import (
	"context"
	"maps"
	"sync"
	"time"

	"everloop/internal/diskspace"
)

// usage remembers the measured size of workspaces for a time that grows with
// what the measuring cost, so that many small writes into a large tree do not
// each walk it.
type usage struct {
	mu    sync.Mutex
	known map[string]*measured
}

type measured struct {
	used    diskspace.Usage
	until   time.Time       // measured again from then on
	grown   diskspace.Usage // what was written since this is known, whatever was taken away
	held    diskspace.Usage // what writers have taken and not written yet
	writers int             // that look at it
}

const (
	measureShare = 20   // a measure holds for this many times its cost
	maxMeasured  = 4096 // workspaces that are remembered; it is only a cache
)

// of returns what is known of a workspace; u is locked.
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

// remeasure brings what is known up to date when it is too old. What others write
// in the meantime is added, seen or not: rather too much than too little.
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

// spent adds what was written since to a remembered measure.
func (w *Workspace) spent(n diskspace.Usage) {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	if m := u.known[w.host]; m != nil {
		m.used = m.used.Plus(n)
		m.grown = m.grown.Plus(diskspace.Usage{Bytes: max(0, n.Bytes), Inodes: max(0, n.Inodes)})
	}
}

// forget has a workspace measured again after a deletion, of which
// the size is not known.
func (w *Workspace) forget() {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	if m := u.known[w.host]; m != nil {
		m.until = time.Time{}
	}
}
