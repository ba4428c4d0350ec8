//go:build linux

// Package kernelfile writes files by which the kernel is configured, such as those of
// control groups and user namespaces.
package kernelfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Write writes a kernel file, which must exist, in one call.
func Write(path, content string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()

	if _, err := unix.Write(fd, []byte(content)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}

	return nil
}
