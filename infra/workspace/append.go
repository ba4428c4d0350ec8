//go:build linux

package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"everloop/internal/diskspace"
)

// Append opens a regular file for appending, and creates it and its parent directories when
// missing. A write that exceeds the workspace's quota fails and writes nothing. The caller must
// close the file.
func (w *Workspace) Append(ctx context.Context, p string) (io.WriteCloser, error) {
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

	if _, err := infoAt(dir, name, rel); errors.Is(err, unix.ENOENT) {
		if err := w.takeEntry(); err != nil {
			return nil, err
		}
	}

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

	return &appender{w: w, file: file}, nil
}

// appender is a file that is opened for appending.
type appender struct {
	w    *Workspace
	file *os.File
}

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), measureTime)
	defer cancel()

	quota, err := a.w.Quota(ctx)
	if err != nil {
		return 0, err
	}
	defer quota.Close()

	if err := quota.Take(diskspace.Usage{Bytes: int64(len(p))}); err != nil {
		return 0, err
	}

	n, err := a.file.Write(p)
	a.w.spent(diskspace.Usage{Bytes: int64(n)})

	return n, err
}

// Close implements io.Closer.
func (a *appender) Close() error { return a.file.Close() }
