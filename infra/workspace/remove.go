//go:build linux

package workspace

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/rmtree"
)

// Remove deletes an entry; a link itself, not its target. A directory with content is deleted
// only when recursive is set. The root cannot be deleted.
func (w *Workspace) Remove(ctx context.Context, p string, recursive bool) error {
	rel, err := w.Clean(p)
	if err != nil {
		return err
	}

	if rel == "." {
		return domain.Newf(domain.Invalid, CodeIsDirectory, "the root of a workspace cannot be deleted")
	}

	dir, name, err := w.parent(rel)
	if err != nil {
		return explain(p, err)
	}

	defer func() { _ = unix.Close(dir) }()
	defer w.forget()

	err = w.unlink(dir, name)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		if recursive {
			return explain(p, removeAll(ctx, dir, name))
		}

		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}

	return explain(p, err)
}

// unlink deletes an entry that is not a directory, under the lock of conditional writers.
func (w *Workspace) unlink(dir int, name string) error {
	release, err := w.store.locks.hold(place{dir, name})
	if err != nil {
		return err
	}
	defer release()

	return unix.Unlinkat(dir, name, 0)
}

// removeAll deletes a name recursively.
func removeAll(ctx context.Context, dir int, name string) error {
	_, err := rmtree.Remove(ctx, dir, name, tempPrefix)
	return err
}
