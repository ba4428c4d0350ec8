//go:build linux

package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// Remove deletes an entry; a link itself, wherever it points. A directory with
// content is deleted only when recursive is set. The root cannot be deleted.
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

// unlink deletes what is no directory, between other writers' looks and writes.
func (w *Workspace) unlink(dir int, name string) error {
	release, err := w.store.locks.hold(place{dir, name})
	if err != nil {
		return err
	}
	defer release()
	return unix.Unlinkat(dir, name, 0)
}

// maxDepth bounds the descriptors that deleting a deep tree holds.
const maxDepth = 64

// removeAll deletes a name with all below it. What lies deeper than maxDepth is
// first moved up beside the name: a command can nest directories far deeper
// than a path can say or a process has descriptors.
func removeAll(ctx context.Context, dir int, name string) error {
	r := remover{ctx: ctx, top: dir, queue: []string{name}}
	for first := true; len(r.queue) > 0; first = false {
		next := r.queue[len(r.queue)-1]
		r.queue = r.queue[:len(r.queue)-1]
		if err := r.remove(dir, next, 0); err != nil && (first || !errors.Is(err, unix.ENOENT)) {
			return err
		}
	}
	return nil
}

type remover struct {
	ctx   context.Context
	top   int
	queue []string // names in top that are still to be deleted
}

func (r *remover) remove(dir int, name string, depth int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	err := unix.Unlinkat(dir, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if depth >= maxDepth {
		moved := tempPrefix + rand.Text()
		if err := unix.Renameat(dir, name, r.top, moved); err != nil {
			return err
		}
		r.queue = append(r.queue, moved)
		return nil
	}
	// While commands run, new files may come as fast as they go.
	for range 10 {
		if err = r.empty(dir, name, depth); err != nil {
			return err
		}
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// empty deletes what a directory holds.
func (r *remover) empty(dir int, name string, depth int) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		// Not root, and a command took the rights away.
		_ = unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
		fd, err = unix.Openat(dir, name, flags, 0)
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o300 != 0o300 {
		_ = unix.Fchmod(fd, st.Mode&0o7777|0o700)
	}
	for _, n := range names {
		if err := r.remove(fd, n, depth+1); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}
