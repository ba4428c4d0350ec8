//go:build linux

package workspace

import (
	"errors"
	"path"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"everloop/internal/sharedfs"
)

// inside restricts every path to the tree below the root, and rejects the magic links of /proc.
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// openAt opens a clean path with openat2 and the given rule.
func (w *Workspace) openAt(rel string, flags int, resolve uint64) (int, error) {
	defer runtime.KeepAlive(w)

	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(w.root.Fd()), rel, &how)
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

// parent opens the parent directory of a clean path. The root has none.
func (w *Workspace) parent(rel string) (fd int, name string, err error) {
	if rel == "." {
		return -1, "", unix.EISDIR
	}

	fd, err = w.openAt(path.Dir(rel), unix.O_PATH|unix.O_DIRECTORY, inside)

	return fd, path.Base(rel), err
}

// openRegular opens a path for reading, if it is a regular file. It checks the type before
// opening, because opening a pipe or device can have side effects.
func (w *Workspace) openRegular(rel string) (int, unix.Stat_t, error) {
	for try := 1; ; try++ {
		fd, st, err := w.tryRegular(rel)
		if !errors.Is(err, errReplaced) {
			return fd, st, err
		}

		if try == replacedTries {
			return fd, st, unix.ENOENT
		}

		w.forgetName(rel)
		time.Sleep(replacedPause)
	}
}

// A network file system deletes a file that another machine has replaced, and the client's name
// cache can lead to it until it expires, after a second by default.
const (
	replacedTries = 150
	replacedPause = 20 * time.Millisecond
)

// forgetName revalidates the client's cache entry of a name: a client that receives a stale file
// handle looks the name up again.
func (w *Workspace) forgetName(rel string) {
	dir, name, err := w.parent(rel)
	if err != nil {
		return // the next attempt returns it
	}
	defer func() { _ = unix.Close(dir) }()

	var st unix.Stat_t

	_ = sharedfs.Stat(dir, "", &st, true)
	_ = sharedfs.Stat(dir, name, &st, true)
}

// errReplaced reports that a name was replaced by another file.
var errReplaced = errors.New("was replaced at the same time")

func (w *Workspace) tryRegular(rel string) (int, unix.Stat_t, error) {
	var st unix.Stat_t

	found, err := w.openAt(rel, unix.O_PATH, inside)
	if err != nil {
		return -1, st, err
	}

	defer func() { _ = unix.Close(found) }()

	fresh := w.store.cached(found)

	err = sharedfs.Stat(found, "", &st, fresh)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESTALE) {
		return -1, st, errReplaced
	}

	if err != nil {
		return -1, st, err
	}

	if err := regular(rel, &st); err != nil {
		return -1, st, err
	}

	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESTALE) {
		err = errReplaced
	}

	if err == nil && fresh { // else an ETag could name older content
		if err = sharedfs.DropPages(fd); err != nil {
			_ = unix.Close(fd)
		}
	}

	return fd, st, err
}

// own changes the owner of a new entry to the session's user.
func (w *Workspace) own(fd int, name string) error {
	if w.uid < 0 {
		return nil
	}

	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags = unix.AT_EMPTY_PATH
	}

	return unix.Fchownat(fd, name, w.uid, w.uid, flags)
}
