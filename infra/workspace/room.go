//go:build linux

package workspace

import (
	"context"
	"math"

	"everloop/domain"
)

// Room is what one writer may put into a workspace. Of several writers of this
// process each takes from what the others have left, so that together they stay
// within the limit. A nil Room is without end.
type Room struct {
	usage *usage
	of    *measured
	limit int64
	held  int64 // taken and not given back; under the lock of usage
}

// Room opens the room of a workspace that may hold limit bytes, for one writer
// that closes it. A limit of 0 is none.
func (w *Workspace) Room(ctx context.Context, limit int64) (*Room, error) {
	if limit <= 0 {
		return nil, nil
	}
	u := &w.store.usage
	u.mu.Lock()
	r := &Room{usage: u, of: u.of(w.host), limit: limit}
	r.of.rooms++
	u.mu.Unlock()
	if err := w.remeasure(ctx, r.of); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close gives back what was taken: by now it is written, or nobody needs it. It is
// called once.
func (r *Room) Close() {
	if r == nil {
		return
	}
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	r.of.held -= r.held
	r.of.rooms--
	r.held = 0
}

// Take says whether there is room for n bytes more, and keeps it for the writer.
func (r *Room) Take(n int64) bool {
	if r == nil {
		return true
	}
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	if n > r.free() {
		return false
	}
	r.held += n
	r.of.held += n
	return true
}

// give takes n bytes back that were taken.
func (r *Room) give(n int64) {
	if r == nil {
		return
	}
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	r.held -= n
	r.of.held -= n
}

// left is how many bytes there are to take at the moment.
func (r *Room) left() int64 {
	if r == nil {
		return math.MaxInt64 - 1
	}
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	return max(0, r.free())
}

// taken is how many bytes the writer holds.
func (r *Room) taken() int64 {
	if r == nil {
		return 0
	}
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	return r.held
}

func (r *Room) free() int64 { return r.limit - r.of.bytes - r.of.held }

// full is the answer to a write that a workspace has no room for.
func full(rel string) error {
	return domain.Newf(domain.TooLarge, CodeNoSpace, "%s could not be written: the workspace is full", shorten(rel))
}
