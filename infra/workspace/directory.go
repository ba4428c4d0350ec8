//go:build linux

package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// A command can create any number of names in a directory. These constants bound the memory of
// the service for them.
const (
	// MaxListed is the maximum number of entries in a listing for a client.
	MaxListed = 100_000
	// walkBatch is the number of names that a walk reads and sorts together.
	walkBatch = 50_000
	// maxHeld is the maximum number of names that a walk has in memory for all open levels.
	maxHeld = 5 * walkBatch
	// readBatch is the number of names between two checks of the context.
	readBatch = 1024
)

// List returns the entries of a directory: directories first, then by name. More than most
// entries are a too_many_entries error.
func (w *Workspace) List(ctx context.Context, p string, most int) ([]Info, error) {
	var list []Info

	err := w.Each(ctx, p, most, func(info Info) { list = append(list, info) })
	if err != nil {
		return nil, err
	}

	slices.SortStableFunc(list, directoriesFirst)

	return list, nil
}

func directoriesFirst(a, b Info) int {
	switch {
	case (a.Type == Directory) == (b.Type == Directory):
		return 0
	case a.Type == Directory:
		return -1
	}

	return 1
}

// Each calls visit for the entries of a directory, by name. More than most entries are a
// too_many_entries error, before the first call.
func (w *Workspace) Each(ctx context.Context, p string, most int, visit func(Info)) error {
	rel, err := w.Clean(p)
	if err != nil {
		return err
	}

	d := &directory{w: w, rel: rel, resolve: inside}
	defer d.release()

	names, whole, err := d.read(ctx, most+1)
	if err != nil {
		return explain(p, err)
	}

	if !whole {
		return domain.Newf(domain.TooLarge, CodeTooManyEntries, "%s has more than %d entries", shorten(rel), most)
	}

	for i, name := range names {
		if i%readBatch == 0 && ctx.Err() != nil {
			return ctx.Err()
		}

		info, err := d.look(name)
		if gone(err) {
			continue
		}

		if err != nil {
			return explain(p, err)
		}

		visit(info)
	}

	return nil
}

// Walk calls visit for an entry and its descendants, each directory before its children, in the
// order of names. A directory with more than 50,000 entries is sorted in batches of 50,000. Links
// are visited, not followed. visit can return fs.SkipDir or fs.SkipAll. Directories that are
// deleted during the walk, or whose path is too long, are skipped. Many nested large directories
// are a too_many_entries error.
func (w *Workspace) Walk(ctx context.Context, p string, visit func(Info) error) error {
	info, err := w.Stat(p)
	if err != nil {
		return err
	}

	k := &walk{w: w, ctx: ctx, visit: visit}

	err = k.entry(info)
	if errors.Is(err, fs.SkipAll) || errors.Is(err, fs.SkipDir) {
		return nil
	}

	return err
}

// walk is the state of one walk.
type walk struct {
	w     *Workspace
	ctx   context.Context
	visit func(Info) error
	held  int // number of names of the open levels
}

func (k *walk) entry(info Info) error {
	if err := k.ctx.Err(); err != nil {
		return err
	}

	if err := k.visit(info); err != nil {
		if info.Type == Directory && errors.Is(err, fs.SkipDir) {
			return nil
		}

		return err
	}

	if info.Type != Directory {
		return nil
	}

	err := k.directory(info.Path)
	if errors.Is(err, fs.SkipDir) {
		return nil // from a file: the rest of its directory
	}

	return err
}

// directory visits the children of a directory. It closes descriptors before it descends, except
// for a directory with unread entries.
func (k *walk) directory(rel string) error {
	d := &directory{w: k.w, rel: rel, resolve: inside | unix.RESOLVE_NO_SYMLINKS}
	defer d.release()

	for {
		names, whole, err := d.read(k.ctx, walkBatch)
		if err != nil {
			if rel != "." && gone(err) {
				return nil
			}

			return explain(rel, err)
		}

		if k.held+len(names) > maxHeld {
			return domain.Newf(domain.TooLarge, CodeTooManyEntries, "the directories above %s have too many entries", shorten(rel))
		}

		k.held += len(names)
		for _, name := range names {
			info, err := d.look(name)
			if gone(err) {
				continue
			}

			if err != nil {
				return explain(rel, err)
			}

			if info.Type == Directory && whole {
				d.release()
			}

			if err := k.entry(info); err != nil {
				return err
			}
		}

		k.held -= len(names)

		if whole {
			return nil
		}
	}
}

// directory is opened by its path on demand.
type directory struct {
	w       *Workspace
	rel     string
	resolve uint64
	file    *os.File // nil: not open
}

func (d *directory) open() error {
	if d.file != nil {
		return nil
	}

	fd, err := d.w.openAt(d.rel, unix.O_RDONLY|unix.O_DIRECTORY, d.resolve)
	if err == nil {
		d.file = os.NewFile(uintptr(fd), d.rel)
	}

	return err
}

func (d *directory) release() {
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
}

// read returns the next names, about most of them, sorted; whole reports that no more follow.
func (d *directory) read(ctx context.Context, most int) (names []string, whole bool, err error) {
	if err := d.open(); err != nil {
		return nil, false, err
	}

	for len(names) < most {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}

		found, err := d.file.Readdirnames(min(readBatch, most-len(names)))
		for _, name := range found {
			if !strings.HasPrefix(name, tempPrefix) {
				names = append(names, name)
			}
		}

		if errors.Is(err, io.EOF) {
			whole = true
			break
		}

		if err != nil {
			return nil, false, err
		}
	}

	slices.Sort(names)

	return names, whole, nil
}

// look returns the Info of an entry.
func (d *directory) look(name string) (Info, error) {
	if err := d.open(); err != nil {
		return Info{}, err
	}

	return infoAt(int(d.file.Fd()), name, path.Join(d.rel, name))
}
