//go:build linux

package workspace

import (
	"context"
	"maps"
	"sync"
	"time"
)

// usage remembers the measured size of workspaces for a time that grows with
// what the measuring cost, so that many small writes into a large tree do not
// each walk it.
type usage struct {
	mu    sync.Mutex
	known map[string]*measured
}

type measured struct {
	bytes int64
	until time.Time // measured anew from then on
	grown int64     // bytes that were written since this is known, whatever was taken away
	held  int64     // bytes that writers have taken and not written yet
	rooms int       // writers that look at it
}

const (
	measureShare = 20   // a measure holds for this many times its cost
	maxMeasured  = 4096 // workspaces that are remembered; it is only a cache
)

// of gives what is known of a workspace; u is locked.
func (u *usage) of(host string) *measured {
	if m := u.known[host]; m != nil {
		return m
	}
	if len(u.known) >= maxMeasured {
		maps.DeleteFunc(u.known, func(_ string, m *measured) bool { return m.rooms == 0 })
	}
	if u.known == nil {
		u.known = map[string]*measured{}
	}
	m := &measured{}
	u.known[host] = m
	return m
}

// remeasure brings what is known up to date when it is too old. What others write
// meanwhile is added, seen or not: rather too much than too little.
func (w *Workspace) remeasure(ctx context.Context, m *measured) error {
	u := &w.store.usage
	u.mu.Lock()
	fresh, grown := time.Now().Before(m.until), m.grown
	u.mu.Unlock()
	if fresh {
		return nil
	}
	began := time.Now()
	bytes, err := w.measure(ctx)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	m.bytes = bytes + m.grown - grown
	m.until = time.Now().Add(measureShare * time.Since(began))
	return nil
}

// spent adds what was written since to a remembered measure.
func (w *Workspace) spent(bytes int64) {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.known[w.host]; m != nil {
		m.bytes += bytes
		m.grown += max(0, bytes)
	}
}

// forget has a workspace measured anew after something was deleted, of which
// nobody knows how large it was.
func (w *Workspace) forget() {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.known[w.host]; m != nil {
		m.until = time.Time{}
	}
}

// measure adds up the space of all entries, as the sandbox does: what they take
// on the disk, and a little for each.
func (w *Workspace) measure(ctx context.Context) (int64, error) {
	var total int64
	err := w.Walk(ctx, ".", func(i Info) error {
		total += i.blocks*512 + 256
		return nil
	})
	return total, err
}
