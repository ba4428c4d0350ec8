//go:build linux

package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/diskspace"
	"everloop/internal/sharedfs"
)

// WriteOptions are the options of WriteFile.
type WriteOptions struct {
	IfMatch    string      // ETag that the file must have; "": any
	CreateOnly bool        // the file must not exist
	Parents    bool        // create missing directories
	MaxSize    int64       // bytes; 0: unlimited
	Mode       fs.FileMode // of a new file; 0: 0644. An existing file's mode does not change
	Sync       bool        // flush the content before the rename
}

// WriteFile creates or replaces a regular file atomically: readers see the old or the new
// content. A link, or another entry that is not a regular file, is rejected, not followed. It
// returns the new file's Info.
func (w *Workspace) WriteFile(ctx context.Context, p string, content io.Reader, o WriteOptions) (Info, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return Info{}, err
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

	old, err := w.target(dir, name, rel, o) // check before the content is read
	if err != nil {
		return Info{}, explain(p, err)
	}

	quota, err := w.Quota(ctx)
	if err != nil {
		return Info{}, explain(p, err)
	}
	defer quota.Close()

	cost := newCharge(quota, old)
	if err := cost.entry(old); err != nil {
		return Info{}, err
	}

	staging, err := w.store.staging()
	if err != nil {
		return Info{}, explain(p, err)
	}
	defer func() { _ = unix.Close(staging) }()

	temp := tempPrefix + rand.Text()

	fd, err := unix.Openat(staging, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return Info{}, explain(p, err)
	}

	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()

	err = w.fill(f, rel, charged{contextReader{ctx, content}, cost}, o)

	var info Info
	if err == nil {
		info, err = w.place(fd, staging, temp, dir, name, rel, o)
	}

	if err != nil {
		_ = unix.Unlinkat(staging, temp, 0)
		return Info{}, explain(p, err)
	}

	return info, nil
}

// fill writes the temporary file.
func (w *Workspace) fill(f *os.File, rel string, content io.Reader, o WriteOptions) error {
	if o.MaxSize > 0 {
		content = io.LimitReader(content, o.MaxSize+1)
	}

	n, err := io.Copy(f, content)
	if err != nil {
		return err
	}

	if o.MaxSize > 0 && n > o.MaxSize {
		return domain.Newf(domain.TooLarge, CodeTooLarge, "%s is larger than %d bytes", rel, o.MaxSize)
	}

	if err := w.own(int(f.Fd()), ""); err != nil {
		return err
	}

	if o.Sync {
		return f.Sync()
	}

	return sharedfs.Flush(int(f.Fd()))
}

// place renames a temporary file, whose descriptor is fd, into place.
func (w *Workspace) place(fd, from int, temp string, dir int, name, rel string, o WriteOptions) (Info, error) {
	// The lock excludes other writers of the service between the check and the rename.
	release, err := w.store.locks.hold(place{dir, name})
	if err != nil {
		return Info{}, err
	}
	defer release()

	old, err := w.target(dir, name, rel, o)
	if err != nil {
		return Info{}, err
	}

	mode := o.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}

	if old != nil {
		mode = old.Mode
	}

	if err := unix.Fchmod(fd, uint32(mode)); err != nil {
		return Info{}, err
	}

	switch {
	case old == nil:
		err = sharedfs.RenameNoReplace(fd, from, temp, dir, name)
		if errors.Is(err, unix.EEXIST) && !o.CreateOnly {
			err = sharedfs.Rename(from, temp, dir, name) // a command has created it concurrently
		}
	case o.IfMatch != "":
		err = w.swap(from, temp, dir, name, *old)
	default:
		err = sharedfs.Rename(from, temp, dir, name)
	}

	if err != nil {
		return Info{}, err
	}

	if o.Sync {
		syncDirectory(dir)
	}

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Info{}, err
	}

	info := infoOf(rel, &st)
	info.Replaced = old != nil

	w.spent(diskspace.Usage{Bytes: st.Blocks*512 + diskspace.PerInode, Inodes: 1})

	if old != nil {
		w.spent(diskspace.Usage{Bytes: -old.blocks*512 - diskspace.PerInode, Inodes: -1})
	}

	return info, nil
}

// target returns the file to replace, or nil, and checks the conditions.
func (w *Workspace) target(dir int, name, rel string, o WriteOptions) (*Info, error) {
	var st unix.Stat_t

	fresh := w.store.cached(dir)
	if fresh { // the name can be cached, too
		if err := sharedfs.Stat(dir, "", &st, true); err != nil {
			return nil, err
		}
	}

	err := sharedfs.Stat(dir, name, &st, fresh)
	if errors.Is(err, unix.ENOENT) {
		if o.IfMatch != "" {
			return nil, errStale
		}

		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	if o.CreateOnly {
		return nil, unix.EEXIST
	}

	if err := regular(rel, &st); err != nil {
		return nil, err
	}

	info := infoOf(rel, &st)
	if o.IfMatch != "" && o.IfMatch != info.ETag() {
		return nil, errStale
	}

	return &info, nil
}

// syncDirectory makes a new name durable; dir is an O_PATH descriptor.
func syncDirectory(dir int) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Fsync(fd)
		_ = unix.Close(fd)
	}
}

// MkdirAll creates a directory and its missing parents. An existing directory is not an error.
func (w *Workspace) MkdirAll(p string) error {
	rel, err := w.Clean(p)
	if err != nil {
		return err
	}

	return explain(p, w.mkdirAll(rel))
}

func (w *Workspace) mkdirAll(rel string) error {
	fd, err := w.openAt(rel, unix.O_PATH|unix.O_DIRECTORY, inside)
	if err == nil {
		return unix.Close(fd)
	}

	if !errors.Is(err, unix.ENOENT) {
		return err
	}

	for i := range len(rel) + 1 {
		if i < len(rel) && rel[i] != '/' {
			continue
		}

		if err := w.mkdir(rel[:i]); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	// The last name can exist with another type, or as a dangling link.
	if fd, err = w.openAt(rel, unix.O_PATH|unix.O_DIRECTORY, inside); err != nil {
		return err
	}

	return unix.Close(fd)
}

// mkdir creates one directory with the session's owner. An existing name is unix.EEXIST.
func (w *Workspace) mkdir(rel string) error {
	dir, name, err := w.parent(rel)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()

	if _, err := infoAt(dir, name, rel); err == nil {
		return unix.EEXIST
	}

	if err := w.takeEntry(); err != nil {
		return err
	}

	// Rename it after the chown: commands could otherwise write to it before.
	temp := tempPrefix + rand.Text()
	if err := unix.Mkdirat(dir, temp, 0o755); err != nil {
		return err
	}

	err = w.own(dir, temp)
	if err == nil {
		err = w.store.nameDirectory(dir, temp, dir, name)
	}

	if err != nil {
		_ = unix.Unlinkat(dir, temp, unix.AT_REMOVEDIR)
	}

	return err
}

// Symlink creates a link. The target is not checked; every access through it is.
func (w *Workspace) Symlink(target, p string) error {
	rel, err := w.Clean(p)
	if err != nil {
		return err
	}

	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return domain.Newf(domain.Malformed, CodeBadPath, "this is not a target of a link")
	}

	dir, name, err := w.parent(rel)
	if err != nil {
		return explain(p, err)
	}

	defer func() { _ = unix.Close(dir) }()

	if err := w.takeEntry(); err != nil {
		return err
	}

	if err := unix.Symlinkat(target, dir, name); err != nil {
		return explain(p, err)
	}

	return explain(p, w.own(dir, name))
}

// Rename moves an entry, a link itself. An existing entry at the new name is replaced only if
// replace is set, and a directory only if empty.
func (w *Workspace) Rename(from, to string, replace bool) error {
	relFrom, err := w.Clean(from)
	if err != nil {
		return err
	}

	relTo, err := w.Clean(to)
	if err != nil {
		return err
	}

	dirFrom, nameFrom, err := w.parent(relFrom)
	if err != nil {
		return explain(from, err)
	}

	defer func() { _ = unix.Close(dirFrom) }()

	dirTo, nameTo, err := w.parent(relTo)
	if err != nil {
		return explain(to, err)
	}

	defer func() { _ = unix.Close(dirTo) }()
	// The locks exclude other writers of the service at both names during the rename.
	release, err := w.store.locks.hold(place{dirFrom, nameFrom}, place{dirTo, nameTo})
	if err != nil {
		return explain(from, err)
	}
	defer release()

	if replace {
		err = sharedfs.Rename(dirFrom, nameFrom, dirTo, nameTo)
	} else {
		err = sharedfs.RenameNoReplace(-1, dirFrom, nameFrom, dirTo, nameTo)
	}

	switch {
	case errors.Is(err, unix.EINVAL):
		return domain.Newf(domain.Invalid, CodeBadPath, "%s cannot be moved into itself", from)
	case errors.Is(err, unix.ENOENT):
		return explain(from, err)
	}

	return explain(to, err)
}

// contextReader is a reader that fails when its context is cancelled.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}

	return c.r.Read(p)
}
