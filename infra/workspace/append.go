//go:build linux

package workspace

import (
	"context"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Append opens a regular file for adding to its end, and makes it, with its
// directories, when it is missing. The caller closes it.
func (w *Workspace) Append(ctx context.Context, p string) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rel, err := w.Clean(p)
	if err != nil {
		return nil, err
	}
	if rel != "." {
		if err := w.mkdirAll(path.Dir(rel)); err != nil {
			return nil, explain(p, err)
		}
	}
	dir, name, err := w.parent(rel)
	if err != nil {
		return nil, explain(p, err)
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, explain(p, err)
	}
	file := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = regular(rel, &st)
	}
	if err == nil && st.Size == 0 {
		err = w.own(dir, name)
	}
	if err != nil {
		_ = file.Close()
		return nil, explain(p, err)
	}
	return file, nil
}
