//go:build linux

package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/sharedfs"
)

// CopyOptions are the options of Copy.
type CopyOptions struct {
	Overwrite bool // replace an existing file by a file, a directory by a directory
}

// maxCopies limits the search for a free name.
const maxCopies = 10_000

// Copy copies a regular file, or a directory recursively; a link is followed as in a read.
// Missing parent directories of the target are created. Without a target, the copy is "name
// copy.ext" in the same directory, or the next free "name copy 2.ext". The copy appears
// completely or not at all. Links inside a directory are copied as links; pipes, sockets and
// devices are skipped.
func (w *Workspace) Copy(ctx context.Context, from, to string, o CopyOptions) (Info, error) {
	given, err := w.Clean(from)
	if err != nil {
		return Info{}, err
	}

	if given == "." {
		return Info{}, domain.Newf(domain.Invalid, CodeIsDirectory, "the root of a workspace cannot be copied into itself")
	}

	source, st, err := w.look(given)
	if err != nil {
		return Info{}, explain(from, err)
	}

	defer func() { _ = unix.Close(source) }()

	directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !directory {
		if err := regular(given, &st); err != nil {
			return Info{}, err
		}
	}

	names := copyNames(given, directory)
	if to != "" {
		rel, err := w.copyTarget(given, to, directory)
		if err != nil {
			return Info{}, err
		}

		if err := w.mkdirAll(path.Dir(rel)); err != nil {
			return Info{}, explain(to, err)
		}

		if _, err := w.Stat(rel); err == nil && !o.Overwrite { // check before copying
			return Info{}, explain(to, unix.EEXIST)
		}

		names = func(yield func(string) bool) { yield(rel) }
	} else {
		o.Overwrite = false
	}

	staging, err := w.store.staging()
	if err != nil {
		return Info{}, explain(from, err)
	}

	defer func() { _ = unix.Close(staging) }()

	quota, err := w.Quota(ctx)
	if err != nil {
		return Info{}, explain(from, err)
	}
	defer quota.Close()

	c := &copier{w: w, staging: staging, ctx: ctx, quota: quota, from: shorten(given)}
	if directory {
		return c.directory(source, names, o)
	}

	return c.file(source, &st, names, o)
}

// look returns an O_PATH descriptor and the stat of the target of a path.
func (w *Workspace) look(rel string) (int, unix.Stat_t, error) {
	var st unix.Stat_t

	fd, err := w.openAt(rel, unix.O_PATH, inside)
	if err != nil {
		return -1, st, err
	}

	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}

	return fd, st, nil
}

// copyTarget validates the target path of a copy.
func (w *Workspace) copyTarget(given, to string, directory bool) (string, error) {
	rel, err := w.Clean(to)
	switch {
	case err != nil:
		return "", err
	case rel == ".":
		return "", domain.Newf(domain.Conflict, CodeExists, "the root of the workspace exists already")
	case rel == given:
		return "", domain.Newf(domain.Conflict, CodeExists, "%s is what is copied", shorten(rel))
	case strings.HasPrefix(given, rel+"/"):
		return "", domain.Newf(domain.Conflict, CodeExists, "%s holds what is copied", shorten(rel))
	case directory && strings.HasPrefix(rel, given+"/"):
		return "", domain.Newf(domain.Invalid, CodeBadPath, "%s cannot be copied into itself", shorten(given))
	case !directory && strings.HasSuffix(to, "/"):
		return "", explain(to, unix.EISDIR)
	}

	return rel, nil
}

// copyNames returns the candidate names of a copy next to its original.
func copyNames(rel string, directory bool) iter.Seq[string] {
	dir, name := path.Split(rel)

	ext := path.Ext(name)
	if directory || ext == name { // .profile has no extension
		ext = ""
	}

	stem := dir + strings.TrimSuffix(name, ext) + " copy"

	return func(yield func(string) bool) {
		if !yield(stem + ext) {
			return
		}

		for n := 2; n <= maxCopies; n++ {
			if !yield(fmt.Sprintf("%s %d%s", stem, n, ext)) {
				return
			}
		}
	}
}

// copier is the state of one copy.
type copier struct {
	w       *Workspace
	staging int // staging directory
	ctx     context.Context
	quota   *Quota
	from    string
	mode    uint32 // final mode of a directory
}

// place tries names until one is free.
func (c *copier) place(names iter.Seq[string], try func(dir int, name, rel string) (Info, error)) (Info, error) {
	for rel := range names {
		dir, name, err := c.w.parent(rel)
		if err != nil {
			return Info{}, explain(rel, err)
		}

		info, err := try(dir, name, rel)
		_ = unix.Close(dir)

		if err == nil || !errors.Is(err, unix.EEXIST) {
			return info, explain(rel, err)
		}
	}

	return Info{}, domain.Newf(domain.Conflict, CodeExists, "the name of the copy of %s is taken", c.from)
}

func (c *copier) file(source int, st *unix.Stat_t, names iter.Seq[string], o CopyOptions) (Info, error) {
	if err := c.quota.Take(oneEntry); err != nil {
		return Info{}, err
	}

	temp := tempPrefix + rand.Text()

	out, err := c.content(source, c.staging, temp)
	if err != nil {
		return Info{}, explain(c.from, err)
	}

	defer func() { _ = out.Close() }()

	options := WriteOptions{CreateOnly: !o.Overwrite, Mode: modeOf(st)}

	info, err := c.place(names, func(to int, name, rel string) (Info, error) {
		return c.w.place(int(out.Fd()), c.staging, temp, to, name, rel, options)
	})
	if err != nil {
		_ = unix.Unlinkat(c.staging, temp, 0)
	}

	return info, err
}

func (c *copier) directory(source int, names iter.Seq[string], o CopyOptions) (Info, error) {
	temp := tempPrefix + rand.Text()
	if err := c.tree(source, ".", c.staging, temp, 0); err != nil {
		_ = removeAll(context.WithoutCancel(c.ctx), c.staging, temp)
		return Info{}, explain(c.from, err)
	}

	info, err := c.place(names, func(to int, name, rel string) (Info, error) {
		return c.name(temp, to, name, rel, o.Overwrite)
	})
	if err != nil {
		_ = removeAll(context.WithoutCancel(c.ctx), c.staging, temp)
	} else {
		c.w.spent(c.quota.taken())
	}

	return info, err
}

// name renames a copied directory into place. A directory to overwrite is exchanged with it and
// deleted afterwards.
func (c *copier) name(temp string, dir int, name, rel string, overwrite bool) (Info, error) {
	from := c.staging

	copied, err := unix.Openat(from, temp, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Info{}, err
	}

	defer func() { _ = unix.Close(copied) }()

	err = c.w.store.nameDirectory(from, temp, dir, name)

	replaced := errors.Is(err, unix.EEXIST) && overwrite
	if replaced {
		old, lookErr := infoAt(dir, name, rel)
		if lookErr != nil {
			return Info{}, lookErr
		}

		if old.Type != Directory {
			return Info{}, unix.ENOTDIR
		}

		var aside string
		if aside, err = c.exchange(temp, dir, name); err == nil {
			defer c.w.forget()

			err = removeAll(context.WithoutCancel(c.ctx), from, aside)
		}
	}

	if err == nil {
		err = unix.Fchmod(copied, c.mode)
	}

	if err != nil {
		return Info{}, err
	}

	info, err := infoAt(dir, name, rel)
	info.Replaced = replaced

	return info, err
}

// exchange swaps a copied directory with another, and returns the other's new name. Where the
// file system cannot exchange names, the name is free for a moment. An entry that a command
// creates in that moment stays; the copy fails, and the directory to overwrite is deleted.
func (c *copier) exchange(temp string, dir int, name string) (string, error) {
	err := sharedfs.Exchange(c.staging, temp, dir, name)
	if !errors.Is(err, sharedfs.ErrUnsupported) {
		return temp, err
	}

	aside := tempPrefix + rand.Text()
	if err := sharedfs.Rename(dir, name, c.staging, aside); err != nil {
		return "", err
	}

	err = c.w.store.nameDirectory(c.staging, temp, dir, name)
	if err != nil && sharedfs.RenameNoReplace(-1, c.staging, aside, dir, name) != nil {
		_ = removeAll(context.WithoutCancel(c.ctx), c.staging, aside)
	}

	return aside, err
}
