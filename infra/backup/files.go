package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// filesPart is the prefix of the entries of trees and files.
const filesPart = "files"

// Tree is a directory that is backed up recursively.
type Tree struct {
	Name string // in the names of entries, one segment
	Dir  string
	Skip []string // names directly below Dir to skip
}

// File is one file. A missing file is skipped.
type File struct {
	Name string // in the names of entries, one segment
	Path string
}

// walker reads a tree by descriptors of its directories and does not follow links: a command can
// replace any entry at any moment.
type walker struct {
	ctx   context.Context
	a     *archive
	skip  []string
	links map[inode]string // first names of files with several links
}

type inode struct{ dev, ino uint64 }

// tree writes a tree. A missing tree is skipped.
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

// attempts is the maximum number of reads of a git repository that is being repacked.
const attempts = 5

// directory writes a directory recursively, and closes its descriptor.
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

	entry := func(entry string) error {
		if top && slices.Contains(w.skip, entry) {
			return nil
		}

		return w.entry(fd, entry, path.Join(name, entry))
	}

	repository := isRepository(fd)

	for try := 1; ; try++ {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}

		before := packs(fd, repository)
		if err := ordered(dir, repository, entry); err != nil {
			return err
		}

		if !repository || try == attempts || before == packs(fd, repository) {
			return nil
		}
	}
}

// nameBatch limits the names of a directory in memory: a command can create a million of
// them.
const nameBatch = 1000

// eachName calls visit for the names of a directory in batches, unsorted.
func eachName(dir *os.File, visit func(name string) error) error {
	for {
		names, err := dir.Readdirnames(nameBatch)
		for _, name := range names {
			if err := visit(name); err != nil {
				return err
			}
		}

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}
	}
}

// isRepository reports whether a directory is a git repository.
func isRepository(fd int) bool {
	for _, name := range []string{"HEAD", "refs", "objects"} {
		var stat unix.Stat_t
		if unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return false
		}
	}

	return true
}

// ofRepository are read last in a git repository, in this order, so that every stored reference
// has its objects: loose references first, then packed references, then objects.
var ofRepository = []string{"packed-refs", "objects"}

// ordered visits the names of a directory, for a git repository in a fixed order and including
// missing names.
func ordered(dir *os.File, repository bool, visit func(name string) error) error {
	err := eachName(dir, func(name string) error {
		if repository && slices.Contains(ofRepository, name) {
			return nil
		}

		return visit(name)
	})
	if err != nil || !repository {
		return err
	}

	for _, name := range ofRepository {
		if err := visit(name); err != nil {
			return err
		}
	}

	return nil
}

// packed is a fingerprint of the packs of a repository.
type packed struct {
	count int
	names [sha256.Size]byte // the XOR of the hashes of their names
}

// packs returns the packs of a repository: when they change during the read, objects may have
// moved from unread to already read files.
func packs(fd int, repository bool) (p packed) {
	if !repository {
		return packed{}
	}

	at, err := unix.Openat(fd, "objects/pack", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return packed{}
	}

	dir := os.NewFile(uintptr(at), "objects/pack")
	defer dir.Close()

	err = eachName(dir, func(name string) error {
		hash := sha256.Sum256([]byte(name))
		subtle.XORBytes(p.names[:], p.names[:], hash[:])
		p.count++

		return nil
	})
	if err != nil {
		return packed{}
	}

	return p
}

// entry writes one entry of a directory. It skips entries deleted in the meantime, sockets, pipes
// and devices.
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

// changed reports whether an entry was removed or replaced before it was opened.
func changed(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENXIO)
}

// file writes a regular file by a descriptor; it skips a file that was replaced in the meantime.
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
		return nil // it was replaced
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

// Occupied returns an error for a target that is not empty.
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
