//go:build linux

package diskspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the use of a file system by files.
type Usage struct {
	Bytes  int64 // disk blocks, and PerInode for each entry
	Inodes int64 // files, directories, links and other entries
}

// PerInode is counted for each entry in addition to its content, in bytes, because even an empty
// file uses space.
const PerInode = 256

// Exceeds reports whether u exceeds a limit; 0: unlimited.
func (u Usage) Exceeds(limit Usage) bool {
	return limit.Bytes > 0 && u.Bytes > limit.Bytes || limit.Inodes > 0 && u.Inodes > limit.Inodes
}

// Plus adds.
func (u Usage) Plus(o Usage) Usage { return Usage{u.Bytes + o.Bytes, u.Inodes + o.Inodes} }

// Minus subtracts.
func (u Usage) Minus(o Usage) Usage { return Usage{u.Bytes - o.Bytes, u.Inodes - o.Inodes} }

// Block rounds the length of a file's content up to whole blocks of 4 KiB, the block size of most
// file systems.
func Block(size int64) int64 { return (size + 4095) &^ 4095 }

// Measure sums up the usage below a directory, and stops when it exceeds limit.
func Measure(ctx context.Context, dir string, limit Usage) (Usage, error) {
	s, err := NewScan(dir)
	if err != nil {
		return Usage{}, err
	}
	defer s.Close()

	_, err = s.Step(ctx, limit, time.Time{})

	return s.Used(), err
}

// Scan sums up the usage below a directory, in steps. It does not follow links or open files, and
// uses one descriptor at any depth. Commands can change the tree in the meantime: moved entries
// are counted once, twice or not.
type Scan struct {
	used   Usage
	dir    int // the directory that is open; -1: none
	levels []level
	buf    []byte
	names  []string
}

// level is a directory on the path from the root to the open directory.
type level struct {
	id   inode
	name string   // in the level above
	rest []string // unvisited subdirectories
	read bool     // all entries were read
}

type inode struct{ dev, ino uint64 }

// NewScan starts a scan at a directory, an absolute path and not a link. It must be closed.
func NewScan(dir string) (*Scan, error) {
	fd, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return nil, fmt.Errorf("measure a directory: %w", err)
	}

	id, err := identify(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("measure a directory: %w", err)
	}

	return &Scan{dir: fd, levels: []level{{id: id, name: dir}}, buf: make([]byte, 32<<10)}, nil
}

// Used returns the usage found so far; it is complete when Step has reported done.
func (s *Scan) Used() Usage { return s.used }

// Close frees the descriptor.
func (s *Scan) Close() {
	if s.dir >= 0 {
		_ = unix.Close(s.dir)
		s.dir = -1
	}
}

// Step continues until the scan is complete, the usage exceeds limit, or the deadline, and
// reports whether the scan is complete. A zero time is no deadline. It returns an error only when
// ctx is cancelled.
func (s *Scan) Step(ctx context.Context, limit Usage, until time.Time) (done bool, err error) {
	for !s.used.Exceeds(limit) {
		if err := ctx.Err(); err != nil {
			return false, err
		}

		if !until.IsZero() && time.Now().After(until) {
			return false, nil
		}

		top := &s.levels[len(s.levels)-1]
		switch {
		case !top.read:
			s.read(top)
		case len(top.rest) > 0:
			s.down(top)
		case len(s.levels) == 1:
			return true, nil
		default:
			s.up()
		}
	}

	return true, nil
}

// read counts a batch of entries of the open directory.
func (s *Scan) read(top *level) {
	n, err := unix.ReadDirent(s.dir, s.buf)
	if errors.Is(err, unix.EINTR) {
		return
	}

	if err != nil || n <= 0 {
		top.read = true
		return
	}

	_, _, s.names = unix.ParseDirent(s.buf[:n], -1, s.names[:0])
	for _, name := range s.names {
		var st unix.Stat_t
		if unix.Fstatat(s.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // deleted in the meantime
		}
		// A file with several links counts several times.
		s.used = s.used.Plus(Usage{Bytes: st.Blocks*512 + PerInode, Inodes: 1})
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			top.rest = append(top.rest, strings.Clone(name))
		}
	}
}

// down opens the next subdirectory.
func (s *Scan) down(top *level) {
	name := top.rest[len(top.rest)-1]
	top.rest = top.rest[:len(top.rest)-1]

	fd, err := openDir(s.dir, name)
	if err != nil {
		return // deleted in the meantime
	}

	id, err := identify(fd)
	if err != nil {
		_ = unix.Close(fd)
		return
	}

	_ = unix.Close(s.dir)
	s.dir = fd
	s.levels = append(s.levels, level{id: id, name: name})
}

// up returns to the parent directory. A directory that was moved in the meantime has another
// parent: then the path is opened again from the root, as deep as it still exists.
func (s *Scan) up() {
	s.levels = s.levels[:len(s.levels)-1]
	if s.open("..", len(s.levels)-1) {
		return
	}

	path := s.levels

	s.levels = path[:1]
	if !s.open(path[0].name, 0) {
		path[0].rest, path[0].read = nil, true // the whole tree was deleted
		return
	}

	for i := 1; i < len(path) && s.open(path[i].name, i); i++ {
		s.levels = path[:i+1]
	}
}

// open opens the directory of a level, and verifies its identity.
func (s *Scan) open(name string, at int) bool {
	fd, err := openDir(s.dir, name)
	if err != nil {
		return false
	}

	path := s.levels[:at+1] // up still uses the deeper levels
	if id, err := identify(fd); err != nil || id != path[at].id {
		_ = unix.Close(fd)
		return false
	}

	_ = unix.Close(s.dir)
	s.dir = fd

	return true
}

// openDir opens a directory for reading. If the service is not root, a command may have removed
// the read permission: openDir restores it temporarily.
func openDir(at int, name string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	for {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|flags, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EACCES):
			return fd, err
		}

		return openClosed(at, name)
	}
}

func openClosed(at int, name string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

	fd, err := unix.Openat(at, name, unix.O_PATH|flags, 0)
	if err != nil {
		return -1, err
	}

	defer func() { _ = unix.Close(fd) }()

	var st unix.Stat_t

	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}

	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := unix.Chmod(self, st.Mode&0o7777|0o500); err != nil {
		return -1, err
	}
	defer func() { _ = unix.Chmod(self, st.Mode&0o7777) }()

	return unix.Openat(fd, ".", unix.O_RDONLY|flags, 0)
}

func identify(fd int) (inode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return inode{}, err
	}

	return inode{uint64(st.Dev), st.Ino}, nil
}
