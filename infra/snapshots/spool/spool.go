//go:build linux

// Package spool buffers contents on disk, in an unlinked file, between reading and storing them.
// It does not depend on snapshots, and never uses the disk's reserve.
package spool

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/snapshots/beneath"
	"everloop/internal/diskspace"
)

// CodeNoSpace is the code of a write when the disk of the workspace, or of the spool, is full
// (413).
const CodeNoSpace = "no_space"

// File buffers contents between reading and storing them. It is one unlinked file, so that the
// kernel frees it when the process ends for any reason. It is created on first use.
type File struct {
	Dir     string
	Reserve diskspace.Reserve

	mu   sync.Mutex
	file *os.File
	end  int64
}

// Extent is a range of a spool.
type Extent struct {
	offset int64
	length int
}

// Add appends data.
func (f *File) Add(data []byte) (Extent, error) {
	f.mu.Lock()
	if f.file == nil {
		file, err := openNameless(f.Dir)
		if err != nil {
			f.mu.Unlock()
			return Extent{}, fmt.Errorf("snapshots: make the spool file: %w", err)
		}

		f.file = file
	}

	if err := f.room(int64(len(data))); err != nil {
		f.mu.Unlock()
		return Extent{}, err
	}

	file, at := f.file, Extent{offset: f.end, length: len(data)}
	f.end += int64(len(data))
	f.mu.Unlock()

	if _, err := file.WriteAt(data, at.offset); err != nil {
		if beneath.NoSpace(err) {
			return Extent{}, domain.Newf(
				domain.TooLarge,
				CodeNoSpace,
				"no space is left on the disk where files wait to be stored or restored",
			)
		}

		return Extent{}, fmt.Errorf("snapshots: write the spool file: %w", err)
	}

	return at, nil
}

// room returns an error when n more bytes would use the disk's reserve.
func (f *File) room(n int64) error {
	if f.Reserve == (diskspace.Reserve{}) {
		return nil
	}

	space, err := diskspace.Of(f.Dir)
	if err != nil {
		return err
	}

	if f.Reserve.Touched(space, diskspace.Usage{Bytes: n}) {
		return domain.Newf(
			domain.Unavailable,
			domain.CodeDiskFull,
			"the disk on which files wait to be stored or restored is full but for what is reserved",
		)
	}

	return nil
}

// Read returns the data of an extent, in buf if it is large enough.
func (f *File) Read(at Extent, buf []byte) ([]byte, error) {
	f.mu.Lock()
	file := f.file
	f.mu.Unlock()

	if file == nil {
		return nil, errors.New("snapshots: the spool was closed")
	}

	if cap(buf) < at.length {
		buf = make([]byte, at.length)
	}

	buf = buf[:at.length]
	if _, err := file.ReadAt(buf, at.offset); err != nil {
		return nil, fmt.Errorf("snapshots: read the spool file: %w", err)
	}

	return buf, nil
}

// Size returns the number of added bytes.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.end
}

// Close frees the file.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// openNameless opens a new unlinked file.
func openNameless(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "spool"), nil
	}
	// Not all file systems support O_TMPFILE.
	file, err := os.CreateTemp(dir, "everloop-spool-*")
	if err != nil {
		return nil, err
	}

	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}

	return file, nil
}
