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

// errStale is replaced by an error with the caller's path.
var errStale = errors.New("changed since it was read")

// swap renames a temporary file over an existing file that must still match old. A command can
// have changed that file since: so swap exchanges the two, checks the old file again in the
// staging directory, and exchanges them back when it differs.
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
	// Restore the changed file. When a command has replaced the new file in the meantime, that
	// file is the newest, and stays.
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

// replaceIf is swap for file systems that cannot exchange names. It links the old file to a
// second name before the rename, so that a command's write until then is detected and undone. A
// file that a command renames to the name between the check and the rename is lost; without hard
// links also a write to the old file.
func (w *Workspace) replaceIf(from int, temp string, dir int, name string, old, ours Info) error {
	kept := tempPrefix + rand.Text()

	linked := sharedfs.Link(dir, name, from, kept)
	switch {
	case errors.Is(linked, unix.ENOENT):
		return errStale
	case linked == nil:
		defer func() { _ = unix.Unlinkat(from, kept, 0) }() // ENOENT after the undo

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

	if w.unchanged(dir, name, ours) { // otherwise a command has created a newer one
		if err := sharedfs.Rename(from, kept, dir, name); err != nil {
			return err
		}
	}

	return errStale
}

// unchanged compares the attributes that survive a rename; the inode change time does not.
func (w *Workspace) unchanged(dir int, name string, old Info) bool {
	var st unix.Stat_t
	if sharedfs.Stat(dir, name, &st, w.store.cached(dir)) != nil {
		return false
	}

	now := infoOf(name, &st)

	return now.Device == old.Device && now.Inode == old.Inode && now.Type == old.Type &&
		now.Size == old.Size && now.ModTime.Equal(old.ModTime)
}

// RemoveIf deletes a regular file that still has this ETag, even while a command writes to its
// name.
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
		// A file that a command has created at the free name is newer, and stays.
		if sharedfs.RenameNoReplace(-1, aside, temp, dir, name) != nil {
			_ = removeAll(context.WithoutCancel(ctx), aside, temp)
		}

		return explain(p, errStale)
	}

	w.spent(diskspace.Usage{Bytes: -old.blocks*512 - diskspace.PerInode, Inodes: -1})

	return explain(p, unix.Unlinkat(aside, temp, 0))
}
