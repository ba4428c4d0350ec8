//go:build linux

// Package kernelfile writes files by which the kernel is configured, such as those of
// control groups and user namespaces.
package kernelfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Write writes a kernel file, which must exist, in one call.
func Write(path, content string) error {
	var fd int

	err := again(func() (err error) {
		fd, err = unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()

	err = again(func() error {
		_, err := unix.Write(fd, []byte(content))
		return err
	})
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}

	return nil
}

// tries bounds how often an interrupted call is made.
const tries = 100

// again repeats a call that the kernel interrupts when a signal arrives, such as the
// change of a limit, until it succeeds or fails.
func again(call func() error) error {
	for range tries - 1 {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}

	return call()
}
