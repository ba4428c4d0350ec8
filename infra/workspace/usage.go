//go:build linux

package workspace

import (
	"context"
	"sync"
	"time"

	"everloop/domain"
)

// usage remembers the measured size of workspaces for a time that grows with
// what the measuring cost, so that many small writes into a large tree do not
// each walk it.
type usage struct {
	mu    sync.Mutex
	known map[string]measured
}

type measured struct {
	bytes int64
	until time.Time
}

const (
	measureShare = 20   // a measure holds for this many times its cost
	maxMeasured  = 4096 // workspaces that are remembered; it is only a cache
)

// Room says how many bytes may still be written to a workspace that may hold
// limit; never less than 0. A limit of 0 is none, which gives -1.
func (w *Workspace) Room(ctx context.Context, limit int64) (int64, error) {
	if limit <= 0 {
		return -1, nil
	}
	u := &w.store.usage
	u.mu.Lock()
	known, ok := u.known[w.host]
	u.mu.Unlock()
	if !ok || time.Now().After(known.until) {
		began := time.Now()
		bytes, err := w.measure(ctx)
		if err != nil {
			return 0, err
		}
		known = measured{bytes, time.Now().Add(measureShare * time.Since(began))}
		u.mu.Lock()
		if u.known == nil || len(u.known) >= maxMeasured {
			u.known = map[string]measured{}
		}
		u.known[w.host] = known
		u.mu.Unlock()
	}
	return max(0, limit-known.bytes), nil
}

// spent adds what was written since to a remembered measure.
func (w *Workspace) spent(bytes int64) {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if known, ok := u.known[w.host]; ok {
		known.bytes += bytes
		u.known[w.host] = known
	}
}

// forget drops a measure after something was deleted, of which nobody knows how
// large it was.
func (w *Workspace) forget() {
	u := &w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, w.host)
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

// full is the answer to a write that a workspace has no room for.
func full(rel string) error {
	return domain.Newf(domain.TooLarge, CodeNoSpace, "%s could not be written: the workspace is full", shorten(rel))
}

// budget counts what may still be written; below 0 is without end.
type budget struct {
	bounded bool
	left    int64
}

func newBudget(room int64) *budget { return &budget{room >= 0, room} }

// take says whether there is room for n bytes more.
func (b *budget) take(n int64) bool {
	if !b.bounded {
		return true
	}
	b.left -= n
	return b.left >= 0
}
