//go:build linux

package workspace

import (
	"path"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
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
		// could not be sure. It cannot be made to happen for ever.
		if err == unix.EINTR || err == unix.EAGAIN && try < 1000 {
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
	var st unix.Stat_t
	found, err := w.openAt(rel, unix.O_PATH, inside)
	if err != nil {
		return -1, st, err
	}
	defer func() { _ = unix.Close(found) }()
	if err := unix.Fstat(found, &st); err != nil {
		return -1, st, err
	}
	if err := regular(rel, &st); err != nil {
		return -1, st, err
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
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
