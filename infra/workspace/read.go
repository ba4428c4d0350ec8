//go:build linux

package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// Stat describes an entry; the last name is not followed.
func (w *Workspace) Stat(p string) (Info, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return Info{}, err
	}
	if rel == "." {
		fd, err := w.openAt(".", unix.O_PATH|unix.O_DIRECTORY, inside)
		if err != nil {
			return Info{}, explain(p, err)
		}
		defer func() { _ = unix.Close(fd) }()
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		return infoOf(rel, &st), explain(p, err)
	}
	dir, name, err := w.parent(rel)
	if err != nil {
		return Info{}, explain(p, err)
	}
	defer func() { _ = unix.Close(dir) }()
	info, err := infoAt(dir, name, rel)
	return info, explain(p, err)
}

// Open opens a regular file for reading, through links that stay inside. The
// Info is of the very file that is open.
func (w *Workspace) Open(p string) (*os.File, Info, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return nil, Info{}, err
	}
	fd, st, err := w.openRegular(rel)
	if err != nil {
		return nil, Info{}, explain(p, err)
	}
	return os.NewFile(uintptr(fd), path.Base(rel)), infoOf(rel, &st), nil
}

// ReadFile reads a whole regular file of at most limit bytes.
func (w *Workspace) ReadFile(p string, limit int64) ([]byte, Info, error) {
	f, info, err := w.Open(p)
	if err != nil {
		return nil, info, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, info, explain(p, err)
	}
	if int64(len(data)) > limit {
		return nil, info, domain.Newf(domain.TooLarge, CodeTooLarge, "%s is larger than %d bytes", p, limit)
	}
	return data, info, nil
}

// List gives the entries of a directory: directories first, then by name.
func (w *Workspace) List(p string) ([]Info, error) {
	rel, err := w.Clean(p)
	if err != nil {
		return nil, err
	}
	list, err := w.entries(rel, inside)
	if err != nil {
		return nil, explain(p, err)
	}
	sort.SliceStable(list, func(i, j int) bool {
		return list[i].Type == Directory && list[j].Type != Directory
	})
	return list, nil
}

// entries reads a directory, sorted by name.
func (w *Workspace) entries(rel string, resolve uint64) ([]Info, error) {
	fd, err := w.openAt(rel, unix.O_RDONLY|unix.O_DIRECTORY, resolve)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), rel)
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	list := make([]Info, 0, len(names))
	for _, name := range names {
		if strings.HasPrefix(name, tempPrefix) {
			continue
		}
		info, err := infoAt(fd, name, path.Join(rel, name))
		if err == nil { // else it is gone meanwhile
			list = append(list, info)
		}
	}
	return list, nil
}

// Walk calls visit for an entry and all that is below it, each directory before
// its content, names in order. Links are visited, never followed. visit may
// return fs.SkipDir or fs.SkipAll. Directories that vanish during the walk, or
// that lie deeper than a path can say, are passed over.
func (w *Workspace) Walk(ctx context.Context, p string, visit func(Info) error) error {
	info, err := w.Stat(p)
	if err != nil {
		return err
	}
	err = w.walk(ctx, info, visit)
	if errors.Is(err, fs.SkipAll) || errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

func (w *Workspace) walk(ctx context.Context, info Info, visit func(Info) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := visit(info); err != nil {
		if info.Type == Directory && errors.Is(err, fs.SkipDir) {
			return nil
		}
		return err
	}
	if info.Type != Directory {
		return nil
	}
	// Each directory is opened by its path again: no descriptor is held on the
	// way down, however deep it goes.
	list, err := w.entries(info.Path, inside|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		if info.Path != "." && gone(err) {
			return nil
		}
		return explain(info.Path, err)
	}
	for _, entry := range list {
		if err := w.walk(ctx, entry, visit); err != nil {
			if errors.Is(err, fs.SkipDir) {
				return nil // from a file: the rest of its directory
			}
			return err
		}
	}
	return nil
}

// gone says that a directory seen a moment ago is not there any more, or not
// in reach of a path.
func gone(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ENAMETOOLONG, unix.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// CheckDir says whether a path leads to a directory, also through links that
// stay inside.
func (w *Workspace) CheckDir(p string) error {
	rel, err := w.Clean(p)
	if err != nil {
		return err
	}
	fd, err := w.openAt(rel, unix.O_PATH|unix.O_DIRECTORY, inside)
	if err != nil {
		return explain(p, err)
	}
	return unix.Close(fd)
}
