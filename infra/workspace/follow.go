//go:build linux

package workspace

import (
	"golang.org/x/sys/unix"
)

// Follow returns the Info of a path's target, through links that stay inside; name and path are
// the caller's.
func (w *Workspace) Follow(p string) (Info, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return Info{}, err
	}

	fd, err := w.openAt(rel, unix.O_PATH, inside)
	if err != nil {
		return Info{}, explain(p, err)
	}

	defer func() { _ = unix.Close(fd) }()

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Info{}, explain(p, err)
	}

	return infoOf(rel, &st), nil
}
