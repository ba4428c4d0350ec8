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

// inside is the rule for every path: it stays below the root, and the magic
// links of /proc do not count as a way.
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// openAt opens a clean path with the kernel holding the rule.
func (w *Workspace) openAt(rel string, flags int, resolve uint64) (int, error) {
	defer runtime.KeepAlive(w)

	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(w.root.Fd()), rel, &how)
		// EAGAIN: something was renamed while the kernel looked, so that it
		// could not be sure. It cannot be provoked endlessly.
		if err == unix.EINTR || err == unix.EAGAIN && try < 1000 {
			continue
		}
		// EXDEV: the path leads out, or what it leads to was moved out in this
		// moment, as a file is that was replaced.
		if err == unix.EXDEV && try < 100 {
			continue
		}

		return fd, err
	}
}

// parent opens the directory that holds a clean path's last name. The root
// itself has none.
func (w *Workspace) parent(rel string) (fd int, name string, err error) {
	if rel == "." {
		return -1, "", unix.EISDIR
	}

	fd, err = w.openAt(path.Dir(rel), unix.O_PATH|unix.O_DIRECTORY, inside)

	return fd, path.Base(rel), err
}

// openRegular opens what a path leads to for reading, if it is a regular file.
// It is looked at before it is opened: opening a pipe or a device can already
// do something.
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

// A shared file system does not keep a file that another machine has replaced, and the
// client may lead to it for as long as it caches names, a second by default.
const (
	replacedTries = 150
	replacedPause = 20 * time.Millisecond
)

// forgetName asks the server what a name is: a client that learns that its file is
// stale looks the name up again.
func (w *Workspace) forgetName(rel string) {
	dir, name, err := w.parent(rel)
	if err != nil {
		return // the next try returns it
	}
	defer func() { _ = unix.Close(dir) }()

	var st unix.Stat_t

	_ = sharedfs.Stat(dir, "", &st, true)
	_ = sharedfs.Stat(dir, name, &st, true)
}

// errReplaced reports that a name is another file by now.
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

	if err == nil && fresh { // else an ETag could stand for content that is older
		if err = sharedfs.DropPages(fd); err != nil {
			_ = unix.Close(fd)
		}
	}

	return fd, st, err
}

// own gives something new to the session's user.
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
