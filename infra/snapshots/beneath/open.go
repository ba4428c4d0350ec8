//go:build linux

// Package beneath opens files below the root of a workspace while other processes change it: no
// link is followed out of the root, and only regular files are read. It does not depend on
// snapshots.
package beneath

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"everloop/internal/sharedfs"
)

// resolution restricts every path to the tree below the root and rejects links.
const resolution = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// MaxPath is the maximum length of a path in one system call, in bytes.
const MaxPath = unix.PathMax - 1

// OpenRoot opens the root of a workspace with O_PATH.
func OpenRoot(host string) (int, error) {
	fd, err := unix.Open(host, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("snapshots: open the workspace: %w", err)
	}

	return fd, nil
}

// Open opens a path below a directory with openat2 and resolution.
func Open(dir int, rel string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: resolution}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, rel, &how)
		// EAGAIN: the kernel could not verify the lookup because of a concurrent rename. The
		// retries are limited.
		if err == unix.EINTR || err == unix.EAGAIN && try < 1000 {
			continue
		}
		// EXDEV: the path leaves the root, or its target was moved during the lookup, such as a
		// replaced file.
		if err == unix.EXDEV && try < 100 {
			continue
		}

		return fd, err
	}
}

// ErrNotRegular reports that a regular file was replaced by another type.
var ErrNotRegular = errors.New("is no longer a regular file")

// ErrAltered reports a concurrent change.
var ErrAltered = errors.New("was changed at the same time")

// OpenFile opens a name in a directory for reading, if it is a regular file. It checks the type
// before opening, because opening a pipe or device can have side effects. fresh revalidates the
// attribute cache of a network file system.
func OpenFile(dir int, name string, fresh bool) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t

	found, err := Open(dir, name, unix.O_PATH)
	if err != nil {
		return nil, st, err
	}

	defer func() { _ = unix.Close(found) }()

	if err := sharedfs.Stat(found, "", &st, fresh); err != nil {
		return nil, st, err
	}

	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, ErrNotRegular
	}

	fd, err := unix.Open(ViaProc(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, err
	}

	file := os.NewFile(uintptr(fd), "file of a workspace")
	if fresh {
		if err := sharedfs.DropPages(fd); err != nil {
			_ = file.Close()
			return nil, st, err
		}
	}

	return file, st, nil
}

// ViaProc returns a path that resolves to the file of a descriptor, independent of later renames.
func ViaProc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// ReadLink reads a link's target.
func ReadLink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)

	n, err := unix.Readlinkat(dir, name, buf)
	if errors.Is(err, unix.EINVAL) { // no longer a link
		return "", ErrAltered
	}

	if err != nil {
		return "", err
	}

	return string(buf[:n]), nil
}

// Vanished reports an error of a removed or replaced name: another process changed the tree
// during the walk.
func Vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ESTALE) ||
		errors.Is(err, ErrNotRegular) || errors.Is(err, ErrAltered)
}

// Denied reports a permission error.
func Denied(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// NoSpace reports an exhausted disk or quota.
func NoSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
