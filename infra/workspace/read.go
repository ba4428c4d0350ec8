//go:build linux

package workspace

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// Stat returns the Info of an entry; the last name is not followed.
func (w *Workspace) Stat(p string) (Info, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return Info{}, err
	}

	if rel == "." {
		fd, err := w.openAt(".", unix.O_PATH|unix.O_DIRECTORY, inside)
		if err != nil {
			return Info{}, explain(p, err)
		}
		defer func() { _ = unix.Close(fd) }()

		var st unix.Stat_t

		err = unix.Fstat(fd, &st)

		return infoOf(rel, &st), explain(p, err)
	}

	dir, name, err := w.parent(rel)
	if err != nil {
		return Info{}, explain(p, err)
	}

	defer func() { _ = unix.Close(dir) }()

	info, err := infoAt(dir, name, rel)

	return info, explain(p, err)
}

// Open opens a regular file for reading, through links that stay inside. The Info is from the
// open descriptor.
func (w *Workspace) Open(p string) (*os.File, Info, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return nil, Info{}, err
	}

	fd, st, err := w.openRegular(rel)
	if err != nil {
		return nil, Info{}, explain(p, err)
	}

	return os.NewFile(uintptr(fd), path.Base(rel)), infoOf(rel, &st), nil
}

// ReadFile returns the content of a regular file of at most limit bytes.
func (w *Workspace) ReadFile(p string, limit int64) ([]byte, Info, error) {
	f, info, err := w.Open(p)
	if err != nil {
		return nil, info, err
	}
	defer func() { _ = f.Close() }()

	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, info, explain(p, err)
	}

	if int64(len(data)) > limit {
		return nil, info, domain.Newf(domain.TooLarge, CodeTooLarge, "%s is larger than %d bytes", p, limit)
	}

	return data, info, nil
}

// gone reports whether a directory was deleted since it was listed, or its path is too long.
func gone(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ENAMETOOLONG, unix.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}

	return false
}

// CheckDir returns an error when a path is not a directory, also through links that stay inside.
func (w *Workspace) CheckDir(p string) error {
	rel, err := w.Clean(p)
	if err != nil {
		return err
	}

	fd, err := w.openAt(rel, unix.O_PATH|unix.O_DIRECTORY, inside)
	if err != nil {
		return explain(p, err)
	}

	return unix.Close(fd)
}
