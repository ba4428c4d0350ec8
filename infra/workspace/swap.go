//go:build linux

package workspace

import (
	"context"
	"crypto/rand"
	"errors"

	"golang.org/x/sys/unix"
)

// errStale is explained with the path that was asked for.
var errStale = errors.New("changed since it was read")

// swap gives a temporary file the name of one that must still be what was looked
// at. A command in the sandbox may have changed it since: so the two change
// places, what was there is looked at again where nobody else has it, and gets its
// name back when it is another.
func swap(from int, temp string, dir int, name string, old Info) error {
	ours, err := infoAt(from, temp, name)
	if err != nil {
		return err
	}
	err = unix.Renameat2(from, temp, dir, name, unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, unix.ENOENT):
		return errStale
	case errors.Is(err, unix.EINVAL): // this file system cannot
		return unix.Renameat(from, temp, dir, name)
	case err != nil:
		return err
	}
	if unchanged(from, temp, old) {
		return unix.Unlinkat(from, temp, 0)
	}
	// It has to go back. When a command has put yet another in its place by now,
	// that one is newer than both, and stays.
	err = unix.Renameat2(from, temp, dir, name, unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, unix.ENOENT):
		_ = unix.Renameat2(from, temp, dir, name, unix.RENAME_NOREPLACE)
	case err != nil:
		return err
	case !unchanged(from, temp, ours):
		_ = unix.Renameat2(from, temp, dir, name, unix.RENAME_EXCHANGE)
	}
	return errStale
}

// unchanged compares what survives a rename, which the inode change time does not.
func unchanged(dir int, name string, old Info) bool {
	now, err := infoAt(dir, name, name)
	return err == nil && now.Device == old.Device && now.Inode == old.Inode && now.Type == old.Type &&
		now.Size == old.Size && now.ModTime.Equal(old.ModTime)
}

// RemoveIf deletes a regular file that still has this ETag, also if a command
// writes to its name at the same time.
func (w *Workspace) RemoveIf(ctx context.Context, p, etag string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rel, err := w.Clean(p)
	if err != nil {
		return err
	}
	dir, name, err := w.parent(rel)
	if err != nil {
		return explain(p, err)
	}
	defer func() { _ = unix.Close(dir) }()
	release, err := w.store.locks.hold(place{dir, name})
	if err != nil {
		return explain(p, err)
	}
	defer release()
	old, err := w.target(dir, name, rel, WriteOptions{IfMatch: etag})
	if err != nil {
		return explain(p, err)
	}
	aside, err := w.store.staging()
	if err != nil {
		return explain(p, err)
	}
	defer func() { _ = unix.Close(aside) }()
	temp := tempPrefix + rand.Text()
	if err := unix.Renameat(dir, name, aside, temp); err != nil {
		return explain(p, err)
	}
	if !unchanged(aside, temp, *old) {
		// One that a command made at the free name is newer, and stays.
		if unix.Renameat2(aside, temp, dir, name, unix.RENAME_NOREPLACE) != nil {
			_ = removeAll(context.WithoutCancel(ctx), aside, temp)
		}
		return explain(p, errStale)
	}
	w.spent(-old.blocks * 512)
	return explain(p, unix.Unlinkat(aside, temp, 0))
}
