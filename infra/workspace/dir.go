//go:build linux

package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// OpenDir opens a directory, also through links that stay inside the workspace. The descriptor is
// for consumers of whole directories.
func (w *Workspace) OpenDir(p string) (*os.File, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return nil, err
	}

	fd, err := w.openAt(rel, unix.O_RDONLY|unix.O_DIRECTORY, inside)
	if err != nil {
		return nil, explain(p, err)
	}

	return os.NewFile(uintptr(fd), rel), nil
}
