//go:build linux

package workspace

import (
	"context"
	"crypto/rand"
	"errors"

	"golang.org/x/sys/unix"

	"everloop/internal/diskspace"
	"everloop/internal/sharedfs"
)

// errStale is explained with the path that was asked for.
var errStale = errors.New("changed since it was read")

// swap gives a temporary file the name of one that must still be what was looked
// at. A command in the sandbox may have changed it since: so the two change
// places, what was there is looked at again where no other process has it, and gets its
// name back when it is another.
func (w *Workspace) swap(from int, temp string, dir int, name string, old Info) error {
	ours, err := infoAt(from, temp, name)
	if err != nil {
		return err
	}

	err = sharedfs.Exchange(from, temp, dir, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return errStale
	case errors.Is(err, sharedfs.ErrUnsupported):
		return w.replaceIf(from, temp, dir, name, old, ours)
	case err != nil:
		return err
	}

	if w.unchanged(from, temp, old) {
		return unix.Unlinkat(from, temp, 0)
	}
	// It must go back. When a command has put yet another in its place by now,
	// that one is newer than both, and stays.
	err = sharedfs.Exchange(from, temp, dir, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		_ = sharedfs.RenameNoReplace(-1, from, temp, dir, name)
	case err != nil:
		return err
	case !w.unchanged(from, temp, ours):
		_ = sharedfs.Exchange(from, temp, dir, name)
	}

	return errStale
}

// replaceIf is swap where names cannot be exchanged. The old file gets a second name
// before it is replaced, so that what a command wrote to it until then is noticed, and
// it gets its own name back. A file that a command moves to the name between the second
// look and the rename is replaced unnoticed; without hard links also one that it writes.
func (w *Workspace) replaceIf(from int, temp string, dir int, name string, old, ours Info) error {
	kept := tempPrefix + rand.Text()

	linked := sharedfs.Link(dir, name, from, kept)
	switch {
	case errors.Is(linked, unix.ENOENT):
		return errStale
	case linked == nil:
		defer func() { _ = unix.Unlinkat(from, kept, 0) }() // ENOENT when it got its name back

		if !w.unchanged(from, kept, old) {
			return errStale
		}
	case !errors.Is(linked, sharedfs.ErrUnsupported):
		return linked
	}

	if !w.unchanged(dir, name, old) {
		return errStale
	}

	if err := sharedfs.Rename(from, temp, dir, name); err != nil || linked != nil {
		return err
	}

	if w.unchanged(from, kept, old) {
		return nil
	}

	if w.unchanged(dir, name, ours) { // else a command has put a newer one there
		if err := sharedfs.Rename(from, kept, dir, name); err != nil {
			return err
		}
	}

	return errStale
}

// unchanged compares what survives a rename, which the inode change time does not.
func (w *Workspace) unchanged(dir int, name string, old Info) bool {
	var st unix.Stat_t
	if sharedfs.Stat(dir, name, &st, w.store.cached(dir)) != nil {
		return false
	}

	now := infoOf(name, &st)

	return now.Device == old.Device && now.Inode == old.Inode && now.Type == old.Type &&
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
	if err := sharedfs.Rename(dir, name, aside, temp); err != nil {
		return explain(p, err)
	}

	if !w.unchanged(aside, temp, *old) {
		// One that a command made at the free name is newer, and stays.
		if sharedfs.RenameNoReplace(-1, aside, temp, dir, name) != nil {
			_ = removeAll(context.WithoutCancel(ctx), aside, temp)
		}

		return explain(p, errStale)
	}

	w.spent(diskspace.Usage{Bytes: -old.blocks*512 - diskspace.PerInode, Inodes: -1})

	return explain(p, unix.Unlinkat(aside, temp, 0))
}
