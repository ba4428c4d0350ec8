package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// filesPart begins the names of entries of trees and files.
const filesPart = "files"

// Tree is a directory with all below it.
type Tree struct {
	Name string // in the backup, one segment
	Dir  string
	Skip []string // names directly below Dir that are not kept
}

// File is one file. One that does not exist is left out.
type File struct {
	Name string // in the backup, one segment
	Path string
}

// walker reads a tree by descriptors of its directories and follows no link: a command
// may replace what it reads at any moment.
type walker struct {
	ctx   context.Context
	a     *archive
	skip  []string
	links map[inode]string // first names of files that have several
}

type inode struct{ dev, ino uint64 }

// tree writes a tree. One that does not exist is left out.
func (a *archive) tree(ctx context.Context, t Tree) error {
	fd, err := unix.Open(t.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}

	if err != nil {
		return &os.PathError{Op: "open", Path: t.Dir, Err: err}
	}

	w := &walker{ctx: ctx, a: a, skip: t.Skip, links: map[inode]string{}}
	root := path.Join(filesPart, t.Name)

	if err := w.directory(fd, root, true); err != nil {
		return fmt.Errorf("back up %s: %w", t.Dir, err)
	}

	return nil
}

// attempts bound how often a git repository is read again that is being repacked.
const attempts = 5

// directory writes a directory with what is in it, and closes its descriptor.
func (w *walker) directory(fd int, name string, top bool) error {
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()

	if err := w.ctx.Err(); err != nil {
		return err
	}

	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}

	if err := w.a.add(headerOf(name+"/", tar.TypeDir, &stat), nil); err != nil {
		return err
	}

	for try := 1; ; try++ {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}

		names, err := dir.Readdirnames(-1)
		if err != nil {
			return err
		}

		repository := order(names)
		before := packs(fd, repository)

		for _, entry := range names {
			if top && slices.Contains(w.skip, entry) {
				continue
			}

			if err := w.entry(fd, entry, path.Join(name, entry)); err != nil {
				return err
			}
		}

		if !repository || try == attempts || slices.Equal(before, packs(fd, repository)) {
			return nil
		}
	}
}

// order sorts the names of a directory, and reports whether it is a git repository. Of
// one, references come before the objects that they name: loose references, then packed
// ones, then objects, so that each reference that is kept has its objects.
func order(names []string) (repository bool) {
	repository = slices.Contains(names, "HEAD") && slices.Contains(names, "refs") && slices.Contains(names, "objects")
	rank := func(name string) int {
		switch {
		case repository && name == "objects":
			return 2
		case repository && name == "packed-refs":
			return 1
		default:
			return 0
		}
	}

	slices.SortFunc(names, func(a, b string) int {
		if order := rank(a) - rank(b); order != 0 {
			return order
		}

		return strings.Compare(a, b)
	})

	return repository
}

// packs lists the packs of a repository: when they change while it is read, objects may
// have moved from what was not read yet to what was.
func packs(fd int, repository bool) []string {
	if !repository {
		return nil
	}

	at, err := unix.Openat(fd, "objects/pack", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}

	dir := os.NewFile(uintptr(at), "objects/pack")
	defer dir.Close()

	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}

	slices.Sort(names)

	return names
}

// entry writes one entry of a directory. One that has gone meanwhile is left out, and so
// are sockets, pipes and devices.
func (w *walker) entry(parent int, name, full string) error {
	var stat unix.Stat_t

	err := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return w.below(parent, name, full)
		case unix.S_IFREG:
			return w.file(parent, name, full)
		case unix.S_IFLNK:
			err = w.link(parent, name, full, &stat)
		}
	}

	if errors.Is(err, unix.ENOENT) {
		return nil
	}

	return err
}

func (w *walker) below(parent int, name, full string) error {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if changed(err) {
		return nil
	}

	if err != nil {
		return &os.PathError{Op: "open", Path: full, Err: err}
	}

	return w.directory(fd, full, false)
}

// changed reports whether what was to be opened has been removed or replaced meanwhile.
func changed(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENXIO)
}

func (w *walker) file(parent int, name, full string) error {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if changed(err) {
		return nil
	}

	if err != nil {
		return &os.PathError{Op: "open", Path: full, Err: err}
	}

	file := os.NewFile(uintptr(fd), full)
	defer file.Close()

	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}

	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}

	header := headerOf(full, tar.TypeReg, &stat)
	header.Size = stat.Size

	if stat.Nlink > 1 {
		id := inode{uint64(stat.Dev), stat.Ino}
		if first, known := w.links[id]; known && first != full {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		} else {
			w.links[id] = full
		}
	}

	return w.a.add(header, file)
}

func (w *walker) link(parent int, name, full string, stat *unix.Stat_t) error {
	target := make([]byte, unix.PathMax)

	n, err := unix.Readlinkat(parent, name, target)
	if errors.Is(err, unix.EINVAL) {
		return nil // it is no link any more
	}

	if err != nil {
		return err
	}

	header := headerOf(full, tar.TypeSymlink, stat)
	header.Linkname = string(target[:n])

	return w.a.add(header, nil)
}

func headerOf(name string, kind byte, stat *unix.Stat_t) *tar.Header {
	return &tar.Header{
		Name: name, Typeflag: kind, Mode: int64(stat.Mode) & 0o7777, Uid: int(stat.Uid), Gid: int(stat.Gid),
		ModTime: time.Unix(stat.Mtim.Unix()),
	}
}

// file writes a single file.
func (a *archive) file(f File) error {
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}

	return a.bytes(path.Join(filesPart, f.Name), content)
}

// Occupied refuses a target that holds anything.
func Occupied(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	for _, entry := range entries {
		if entry.Name() != "lost+found" {
			return fmt.Errorf("%s is not empty: a restore needs an empty directory", filepath.Clean(dir))
		}
	}

	return nil
}
