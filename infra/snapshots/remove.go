//go:build linux

package snapshots

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxDepth bounds the descriptors that deleting a deep tree holds.
const maxDepth = 64

// removeAll deletes a name with all below it. What lies deeper than maxDepth is
// first moved up beside the name: a command can nest directories far deeper than
// a path can say. It tells how many files it deleted, directories not counted.
func removeAll(ctx context.Context, dir int, name string) (files int, err error) {
	r := remover{ctx: ctx, top: dir, queue: []string{name}}
	for first := true; len(r.queue) > 0; first = false {
		next := r.queue[len(r.queue)-1]
		r.queue = r.queue[:len(r.queue)-1]
		if err := r.remove(dir, next, 0); err != nil && (first || !errors.Is(err, unix.ENOENT)) {
			return r.files, err
		}
	}
	return r.files, nil
}

type remover struct {
	ctx   context.Context
	top   int
	files int
	queue []string // names in top that are still to be deleted
}

func (r *remover) remove(dir int, name string, depth int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	err := unix.Unlinkat(dir, name, 0)
	if err == nil {
		r.files++
	}
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	if depth >= maxDepth {
		moved := restoringPrefix + rand.Text()
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
	fd, err := openBelow(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		// Not root, and a command took the rights away.
		_ = unix.Chmod(viaProc(fd), 0o700)
	}
	names, err := namesIn(fd)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := r.remove(fd, n, depth+1); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// namesIn lists a directory that was opened for looking things up.
func namesIn(dir int) ([]string, error) {
	fd, err := openBelow(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory of a workspace")
	defer func() { _ = f.Close() }()
	return f.Readdirnames(-1)
}

// sweep removes what a restore left that was broken off: files beside those that
// they were to become.
func (r *restorer) sweep() error {
	for _, p := range r.leftovers {
		err := r.within(p, func(dir int, name string) error {
			_, err := removeAll(r.ctx, dir, name)
			return err
		})
		if err != nil && !errors.Is(err, unix.ENOENT) && !denied(err) && !vanished(err) {
			return fault(p, err)
		}
	}
	return nil
}

// leftover says that a name was made by a restore.
func leftover(name string) bool { return strings.HasPrefix(name, restoringPrefix) }
