//go:build linux

// Package rmtree deletes directories that commands have created and may still change: of any
// depth, without permissions, never through a link. It must not depend on their purpose.
package rmtree

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxDepth limits the open descriptors of a deletion.
const maxDepth = 64

// readBatch limits the names of a directory in memory.
const readBatch = 1024

// Remove deletes a name in the directory dir, a descriptor, recursively, and returns the number
// of deleted entries without directories. It deletes a link itself, not its target. A directory
// at level 65 is first moved next to the name, as prefix plus random text: commands can nest
// directories deeper than the maximum path length or number of descriptors. A missing name is
// ENOENT.
func Remove(ctx context.Context, dir int, name, prefix string) (files int, err error) {
	r := remover{ctx: ctx, top: dir, prefix: prefix, queue: []string{name}}
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
	ctx    context.Context
	top    int
	prefix string
	files  int
	queue  []string // names in top to delete
}

// remove deletes one entry; a directory is emptied first, repeatedly while commands add entries
// to it.
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
		if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == nil {
			return nil // it was empty
		}

		moved := r.prefix + rand.Text()
		if err := unix.Renameat(dir, name, r.top, moved); err != nil {
			return err
		}

		r.queue = append(r.queue, moved)

		return nil
	}
	// Running commands can create files as fast as they are deleted.
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

// empty deletes the children of a directory.
func (r *remover) empty(dir int, name string, depth int) error {
	fd, err := open(dir, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		// The process is not root, and a command removed the permissions.
		_ = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
	}

	names, err := open(fd, ".", unix.O_RDONLY) // fd was opened with O_PATH
	if err != nil {
		return err
	}

	f := os.NewFile(uintptr(names), "directory")
	defer func() { _ = f.Close() }()

	for {
		batch, err := f.Readdirnames(readBatch)
		for _, n := range batch {
			if err := r.remove(fd, n, depth+1); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}
	}
}

// open opens a directory without following links.
func open(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
