//go:build linux

package workspace

import (
	"context"
	"io"
	"math"
	"time"

	"everloop/domain"
	"everloop/internal/diskspace"
)

// Limits are the limits of each workspace of a store. 0: unlimited.
type Limits struct {
	Bytes  int64
	Inodes int64 // files, directories and links
	// Reserve is the part of the file system that must stay free.
	Reserve diskspace.Reserve
}

func (l Limits) usage() diskspace.Usage { return diskspace.Usage{Bytes: l.Bytes, Inodes: l.Inodes} }

// Quota is the space that one writer can use in a workspace. Concurrent writers of this process
// share the remaining space, so that together they stay within the limits. A nil Quota is
// unlimited.
type Quota struct {
	w     *Workspace
	of    *measured
	limit diskspace.Usage
	held  diskspace.Usage // reserved and not released; guarded by the lock of usage
}

// Quota returns a new Quota of the workspace for one writer, which must close it.
func (w *Workspace) Quota(ctx context.Context) (*Quota, error) {
	limits := w.store.limits
	if limits == (Limits{}) {
		return nil, nil
	}

	u := &w.store.usage
	u.mu.Lock()
	q := &Quota{w: w, of: u.of(w.host), limit: limits.usage()}
	q.of.writers++
	u.mu.Unlock()

	if q.limit == (diskspace.Usage{}) {
		return q, nil
	}

	if err := w.remeasure(ctx, q.of); err != nil {
		q.Close()
		return nil, err
	}

	return q, nil
}

// Close releases the reservation: the space is now written, or unused. It must be called once.
func (q *Quota) Close() {
	if q == nil {
		return
	}

	u := &q.w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	q.of.held = q.of.held.Minus(q.held)
	q.of.writers--
	q.held = diskspace.Usage{}
}

// Take reserves space for the writer. It fails with no_space when the workspace is full, and with
// disk_full when the disk is.
func (q *Quota) Take(n diskspace.Usage) error {
	if q == nil || n == (diskspace.Usage{}) {
		return nil
	}

	if err := q.w.checkReserve(n); err != nil {
		return err
	}

	u := &q.w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	if q.total().Plus(n).Exceeds(q.limit) {
		return full()
	}

	q.held = q.held.Plus(n)
	q.of.held = q.of.held.Plus(n)

	return nil
}

// Fits returns the error of Take without a reservation: a writer calls it with the total before
// it writes the first part.
func (q *Quota) Fits(n diskspace.Usage) error {
	if q == nil {
		return nil
	}

	if err := q.w.checkReserve(n); err != nil {
		return err
	}

	u := &q.w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	if (n.Bytes > 0 || n.Inodes > 0) && q.total().Plus(n).Exceeds(q.limit) {
		return full()
	}

	return nil
}

// give releases a part of the reservation.
func (q *Quota) give(n diskspace.Usage) {
	if q == nil {
		return
	}

	u := &q.w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	q.held = q.held.Minus(n)
	q.of.held = q.of.held.Minus(n)
}

// left returns the number of bytes that can be reserved now.
func (q *Quota) left() int64 {
	if q == nil || q.limit.Bytes <= 0 {
		return math.MaxInt64 - 1
	}

	u := &q.w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	return max(0, q.limit.Bytes-q.total().Bytes)
}

// taken returns the writer's reservation.
func (q *Quota) taken() diskspace.Usage {
	if q == nil {
		return diskspace.Usage{}
	}

	u := &q.w.store.usage
	u.mu.Lock()
	defer u.mu.Unlock()

	return q.held
}

func (q *Quota) total() diskspace.Usage { return q.of.used.Plus(q.of.held) }

// checkReserve returns an error when a write of n would use the disk's reserve.
func (w *Workspace) checkReserve(n diskspace.Usage) error {
	reserve := w.store.limits.Reserve
	if reserve == (diskspace.Reserve{}) || n.Bytes <= 0 && n.Inodes <= 0 {
		return nil
	}

	space, err := diskspace.Of(w.host)
	if err != nil {
		return err
	}

	if reserve.Touched(space, n) {
		return domain.Newf(domain.Unavailable, CodeDiskFull,
			"the disk of the service is full but for what is reserved: delete files, or ask its operator for space")
	}

	return nil
}

// full returns the error of a write that exceeds the quota.
func full() error {
	return domain.Newf(domain.TooLarge, CodeNoSpace, "not written: the workspace is full, in bytes or in files")
}

// Fits measures a workspace and returns no_space or disk_full when it cannot grow by n. A
// reduction always fits.
func (w *Workspace) Fits(ctx context.Context, n diskspace.Usage) error {
	q, err := w.Quota(ctx)
	if err != nil {
		return err
	}
	defer q.Close()

	return q.Fits(n)
}

// charge reserves quota for one file while its content arrives. The space of a replaced file is
// already counted.
type charge struct {
	quota  *Quota
	credit int64           // bytes that are not charged
	taken  diskspace.Usage // from the quota
}

func newCharge(q *Quota, old *Info) *charge {
	if old == nil {
		return &charge{quota: q}
	}

	return &charge{quota: q, credit: min(old.Size, old.blocks*512)} // sparse files count with their blocks
}

// entry reserves the inode of a new file. A replaced file already has one.
func (c *charge) entry(old *Info) error {
	if old != nil {
		return nil
	}

	return c.take(oneEntry)
}

func (c *charge) take(n diskspace.Usage) error {
	free := min(c.credit, n.Bytes)
	if free > 0 && c.quota != nil { // the old content stays on disk until the rename
		if err := c.quota.w.checkReserve(n); err != nil {
			return err
		}
	}

	n.Bytes -= free
	if err := c.quota.Take(n); err != nil {
		return err
	}

	c.credit -= free
	c.taken = c.taken.Plus(n)

	return nil
}

// release releases the reservation: the file is counted as written, or was deleted.
func (c *charge) release() {
	c.quota.give(c.taken)
	c.taken = diskspace.Usage{}
}

// charged is a reader that fails when the quota is exhausted.
type charged struct {
	r      io.Reader
	charge *charge
}

func (c charged) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if refused := c.charge.take(diskspace.Usage{Bytes: int64(n)}); refused != nil {
		return 0, refused
	}

	return n, err
}

// measureTime bounds the measurement of a workspace for a write without a deadline.
const measureTime = time.Minute

// takeEntry reserves and commits a small entry, such as a directory or a link.
func (w *Workspace) takeEntry() error {
	ctx, cancel := context.WithTimeout(context.Background(), measureTime)
	defer cancel()

	q, err := w.Quota(ctx)
	if err != nil {
		return err
	}
	defer q.Close()

	if err := q.Take(oneEntry); err != nil {
		return err
	}

	w.spent(oneEntry)

	return nil
}

// oneEntry is the disk usage of an empty entry.
var oneEntry = diskspace.Usage{Bytes: diskspace.PerInode, Inodes: 1}
