//go:build linux

// Package diskspace measures the disk usage of directories and the free space of file systems,
// and checks the reserve of the engines. It must not depend on the stored data.
package diskspace

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is the size and the free space of a file system.
type Space struct {
	Bytes, FreeBytes int64 // free: for users that are not root
	// Inodes is 0 where the file system creates inodes dynamically.
	Inodes, FreeInodes int64
}

// Of returns the Space of the file system of a path.
func Of(path string) (Space, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Space{}, fmt.Errorf("free space of a file system: %w", err)
	}

	block := fs.Frsize
	if block <= 0 {
		block = fs.Bsize
	}

	return Space{
		Bytes: int64(fs.Blocks) * block, FreeBytes: int64(fs.Bavail) * block,
		Inodes: int64(fs.Files), FreeInodes: int64(fs.Ffree),
	}, nil
}

// Reserve is the part of a file system that is reserved for the engines: the larger of Bytes and
// Percent of its size, at most half of it. The zero value reserves nothing.
type Reserve struct {
	Bytes   int64
	Percent int // from 0 to 50, of the bytes up to maxShare, and of the inodes up to maxInodes
}

// Caps of Percent: the engines need no more space on a large disk, and few inodes.
const (
	maxShare  = 10 << 30
	maxInodes = 100_000
)

// Of returns the reserved usage of a file system.
func (r Reserve) Of(s Space) Usage {
	return Usage{
		Bytes:  min(max(r.Bytes, min(s.Bytes/100*int64(r.Percent), maxShare)), s.Bytes/2),
		Inodes: min(s.Inodes/100*int64(r.Percent), maxInodes),
	}
}

// Touched reports whether less than the reserve is free, or would be after writing more.
func (r Reserve) Touched(s Space, more Usage) bool {
	reserved := r.Of(s)
	return s.FreeBytes-more.Bytes < reserved.Bytes || s.Inodes > 0 && s.FreeInodes-more.Inodes < reserved.Inodes
}

// Check returns an error with the missing amount when the free space of a path's file system is
// below the reserve.
func (r Reserve) Check(path string) error {
	s, err := Of(path)
	if err != nil {
		return err
	}

	reserved := r.Of(s)
	switch {
	case s.FreeBytes < reserved.Bytes:
		return fmt.Errorf("%d bytes are free, and %d are reserved for the engines", s.FreeBytes, reserved.Bytes)
	case s.Inodes > 0 && s.FreeInodes < reserved.Inodes:
		return fmt.Errorf("%d inodes are free, and %d are reserved for the engines", s.FreeInodes, reserved.Inodes)
	}

	return nil
}
