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
	"everloop/internal/sharedfs"
)

// leftFor is the age from which a temporary entry is considered a leftover of a dead process.
const leftFor = 24 * time.Hour

// Staging stores files outside the workspace until Place names them; Close removes the files that
// were not placed.
type Staging struct {
	w      *Workspace
	holder int    // descriptor of the parent directory
	name   string // in the holder
	dir    *os.File
	quota  *Quota
	costs  []*charge // of the files
}

// Stage opens a staging directory, whose files reserve space from quota.
func (w *Workspace) Stage(ctx context.Context, quota *Quota) (*Staging, error) {
	holder, err := w.store.staging()
	if err != nil {
		return nil, explain("", err)
	}

	removeStale(ctx, holder, time.Now().Add(-leftFor))
	s := &Staging{w: w, holder: holder, name: tempPrefix + rand.Text(), quota: quota}

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

// Close removes the staging directory with all files that were not placed. It must be called
// once.
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

// SourceError is an error of the reader of a file's content, in contrast to an error of the file.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return "source: " + e.Err.Error() }

// Unwrap returns the reader's error.
func (e *SourceError) Unwrap() error { return e.Err }

// Add stages a file of at most limit bytes, and returns its number for Place. A file that cannot
// be stored is removed immediately; the caller must drain the rest of its content. An error of
// the reader is a *SourceError.
func (s *Staging) Add(ctx context.Context, content io.Reader, limit int64) (int, error) {
	name := strconv.Itoa(len(s.costs))
	dir := int(s.dir.Fd())

	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, explain("the file", err)
	}

	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()

	cost := &charge{quota: s.quota}

	err = s.fill(ctx, f, content, limit, cost)
	if err == nil {
		err = s.w.own(fd, "")
	}

	if err == nil {
		err = sharedfs.Flush(fd)
	}

	if err != nil {
		cost.release() // its space is free again

		_ = unix.Unlinkat(dir, name, 0)

		if _, theirs := errors.AsType[*SourceError](err); theirs {
			return 0, err
		}

		return 0, explain("the file", err)
	}

	s.costs = append(s.costs, cost)

	return len(s.costs) - 1, nil
}

func (s *Staging) fill(ctx context.Context, f *os.File, content io.Reader, limit int64, cost *charge) error {
	if err := cost.take(oneEntry); err != nil {
		return err
	}

	source := &blamed{r: contextReader{ctx, content}}

	n, err := io.Copy(f, io.LimitReader(charged{source, cost}, limit+1))
	switch {
	case source.err != nil:
		err = &SourceError{source.err}
	case err == nil && n > limit:
		err = domain.Newf(domain.TooLarge, CodeTooLarge, "the file is larger than %d bytes", limit)
	}

	return err
}

// blamed records whether the reader or the writer of a copy failed.
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

// Place moves a staged file to its path, with the rules of WriteFile.
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
	if err == nil { // the file is now counted as written
		s.costs[number].release()
	}

	return info, explain(p, err)
}

// removeStale deletes leftovers of dead processes.
func removeStale(ctx context.Context, staging int, older time.Time) {
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
