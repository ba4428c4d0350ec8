//go:build linux

package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// leftFor is the age from which something temporary belongs to nobody any more:
// its process ended before it could take it away.
const leftFor = 24 * time.Hour

// Staging takes files whose names are given later, all at once: until then they
// are in nobody's way, and Close leaves nothing of them behind.
type Staging struct {
	w      *Workspace
	holder int    // descriptor of the directory that it is in
	name   string // in the holder
	dir    *os.File
	room   *Room
	sizes  []int64 // of the files, in bytes
}

// Stage opens a staging place, whose files take their space from room.
func (w *Workspace) Stage(ctx context.Context, room *Room) (*Staging, error) {
	holder, err := w.store.staging()
	if err != nil {
		return nil, explain("", err)
	}
	sweep(ctx, holder, time.Now().Add(-leftFor))
	s := &Staging{w: w, holder: holder, name: tempPrefix + rand.Text(), room: room}
	fd := -1
	if err = unix.Mkdirat(holder, s.name, 0o700); err == nil {
		fd, err = unix.Openat(holder, s.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		_ = unix.Close(holder)
		return nil, explain("", err)
	}
	s.dir = os.NewFile(uintptr(fd), "staging")
	return s, nil
}

// Close takes the place away with all that was not placed. It is called once.
func (s *Staging) Close() error {
	defer func() {
		_ = s.dir.Close()
		_ = unix.Close(s.holder)
	}()
	err := removeAll(context.Background(), s.holder, s.name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return explain("", err)
}

// SourceError is a fault of what a file was read from, rather than of the file.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return "source: " + e.Err.Error() }

// Unwrap gives the reader's own error.
func (e *SourceError) Unwrap() error { return e.Err }

// Add takes a file of at most limit bytes, and gives the number that Place knows
// it by. A file that cannot be kept is taken back at once; what is left of its
// content is the caller's to read. A *SourceError is the reader's.
func (s *Staging) Add(ctx context.Context, content io.Reader, limit int64) (int, error) {
	name := strconv.Itoa(len(s.sizes))
	dir := int(s.dir.Fd())
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, explain("the file", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	size, err := s.fill(ctx, f, content, limit)
	if err == nil {
		err = s.w.own(fd, "")
	}
	if err != nil {
		s.room.give(size) // its space is free again
		_ = unix.Unlinkat(dir, name, 0)
		if _, theirs := errors.AsType[*SourceError](err); theirs {
			return 0, err
		}
		return 0, explain("the file", err)
	}
	s.sizes = append(s.sizes, size)
	return len(s.sizes) - 1, nil
}

// fill says how many bytes of the room the file has taken, also when it failed.
func (s *Staging) fill(ctx context.Context, f *os.File, content io.Reader, limit int64) (taken int64, err error) {
	source := &blamed{r: contextReader{ctx, content}}
	from := &roomed{r: source, room: s.room}
	n, err := io.Copy(f, io.LimitReader(from, limit+1))
	switch {
	case source.err != nil:
		err = &SourceError{source.err}
	case err == nil && n > limit:
		err = domain.Newf(domain.TooLarge, CodeTooLarge, "the file is larger than %d bytes", limit)
	}
	return from.taken, err
}

// blamed remembers whose error a failed copy is.
type blamed struct {
	r   io.Reader
	err error
}

func (b *blamed) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// roomed ends a copy when there is no room for more.
type roomed struct {
	r     io.Reader
	room  *Room
	taken int64
}

func (r *roomed) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if !r.room.Take(int64(n)) {
		return 0, full("the file")
	}
	r.taken += int64(n)
	return n, err
}

// Place gives a staged file its name, as WriteFile does.
func (s *Staging) Place(ctx context.Context, number int, p string, o WriteOptions) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	w := s.w
	rel, err := w.Clean(p)
	if err != nil {
		return Info{}, err
	}
	if strings.HasSuffix(p, "/") {
		return Info{}, explain(p, unix.EISDIR)
	}
	if o.Parents && rel != "." {
		if err := w.mkdirAll(path.Dir(rel)); err != nil {
			return Info{}, explain(p, err)
		}
	}
	dir, name, err := w.parent(rel)
	if err != nil {
		return Info{}, explain(p, err)
	}
	defer func() { _ = unix.Close(dir) }()
	from, temp := int(s.dir.Fd()), strconv.Itoa(number)
	fd, err := unix.Openat(from, temp, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Info{}, fmt.Errorf("workspace: staged file %d: %w", number, err)
	}
	defer func() { _ = unix.Close(fd) }()
	info, err := w.place(fd, from, temp, dir, name, rel, o)
	if err == nil { // it counts as written now
		s.room.give(s.sizes[number])
		s.sizes[number] = 0
	}
	return info, explain(p, err)
}

// sweep takes away what dead processes left of their writing.
func sweep(ctx context.Context, staging int, older time.Time) {
	fd, err := unix.Openat(staging, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(fd), stagingDir)
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if info, err := infoAt(fd, name, name); err == nil && info.Changed.Before(older) {
			_ = removeAll(ctx, fd, name)
		}
	}
}
