//go:build linux

package snapshots

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/manifest"
	"everloop/internal/sharedfs"
)

// writingPrefix marks temporary files of the service.
const writingPrefix = ".everloop-tmp-"

// found is the result of a walk for one entry.
type found struct {
	manifest.Entry
	uid   uint32
	links uint64 // number of hard links
	read  bool   // its content was read in this walk
}

// scanned is the result of reading one directory.
type scanned struct {
	path  string // the root is "."
	id    manifest.Identity
	items []found
	// leftovers are temporary files of an interrupted restore.
	leftovers []string
	forced    bool // its mode was changed to make it readable
}

// walker walks a tree with several workers, each reading one directory at a time.
type walker struct {
	ctx  context.Context
	root int
	// known is the tree of an earlier walk.
	known *tree
	// usable reports whether an entry of known can be reused for an unchanged file.
	usable func(*manifest.Entry) bool
	// content reads a regular file that known does not answer, and sets its hash and chunks; nil:
	// contents are not read.
	content func(dir int, name string, f *found) error
	// enter reports whether to walk a directory; nil: all.
	enter func(path string) bool
	// most is the maximum number of entries. Their paths can have 256 bytes each on average.
	most int
	// force makes unreadable directories readable that the service owns.
	force bool
	// fresh revalidates the client cache of a network file system, since other workers can change
	// files.
	fresh bool

	mu     sync.Mutex
	more   *sync.Cond
	queue  []string
	active int
	err    error
	scans  []*scanned
	lost   map[string]manifest.Kind // directories that could not be read; 0: deleted

	entries, pathBytes atomic.Int64 // counts so far
}

// readBatch is the number of names to read from a directory in one call.
const readBatch = 1024

// pathShare is the maximum average length of paths, in bytes.
const pathShare = 256

// admit counts entries against the limits before they are stored.
func (w *walker) admit(dir string, names []string) error {
	bytes := len(names) * (len(dir) + 1)
	for _, name := range names {
		bytes += len(name)
	}

	if w.entries.Add(int64(len(names))) > int64(w.most) {
		return domain.Newf(domain.TooLarge, CodeTooMany, "the workspace has more than %d files and directories", w.most)
	}

	if w.pathBytes.Add(int64(bytes)) > pathShare*int64(w.most) {
		return domain.Newf(
			domain.TooLarge,
			CodeTooMany,
			"the paths of the workspace's files have more than %d bytes together",
			pathShare*w.most,
		)
	}

	return nil
}

// run walks the tree.
func (w *walker) run(workers int) error {
	w.more = sync.NewCond(&w.mu)
	w.queue, w.lost = []string{"."}, map[string]manifest.Kind{}
	w.fresh = sharedfs.CachesAttributes(w.root)

	stop := context.AfterFunc(w.ctx, func() { w.fail(w.ctx.Err()) })
	defer stop()

	var all sync.WaitGroup
	for range workers {
		all.Go(w.work)
	}

	all.Wait()

	return w.err
}

func (w *walker) fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.more.Broadcast()
}

// work scans directories from the queue until it is empty and no worker is active, or until an
// error.
func (w *walker) work() {
	w.mu.Lock()
	defer w.mu.Unlock()

	for {
		for len(w.queue) == 0 && w.active > 0 && w.err == nil {
			w.more.Wait()
		}

		if len(w.queue) == 0 || w.err != nil {
			return
		}

		dir := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		w.active++
		w.mu.Unlock()

		scan, err := w.scan(dir)

		w.mu.Lock()

		w.active--
		switch {
		case err == nil:
			w.scans = append(w.scans, scan)
			for i := range scan.items {
				if item := &scan.items[i]; item.Kind == manifest.Directory && (w.enter == nil || w.enter(item.Path)) {
					w.queue = append(w.queue, item.Path)
				}
			}
		case dir != "." && beneath.Vanished(err):
			w.lost[dir] = 0
		case dir != "." && beneath.Denied(err):
			w.lost[dir] = manifest.Unread
		case w.err == nil:
			w.err = fault(dir, err)
		}

		w.more.Broadcast()
	}
}

// scan reads one directory.
func (w *walker) scan(dir string) (*scanned, error) {
	fd, forced, err := w.openDir(dir)
	if err != nil {
		return nil, err
	}

	f := os.NewFile(uintptr(fd), "directory of a workspace")
	defer func() { _ = f.Close() }()

	var st unix.Stat_t
	if err := sharedfs.Stat(fd, "", &st, w.fresh); err != nil {
		return nil, err
	}

	s := &scanned{path: dir, id: manifest.IdentityOf(&st), forced: forced}

	for {
		names, err := f.Readdirnames(readBatch)
		if errors.Is(err, io.EOF) {
			return s, nil
		}

		if err != nil {
			return nil, err
		}

		if err := errors.Join(w.ctx.Err(), w.admit(dir, names)); err != nil {
			return nil, err
		}

		for _, name := range names {
			if err := w.item(fd, name, s); err != nil {
				return nil, err
			}
		}
	}
}

// item adds an entry of a directory to the scan.
func (w *walker) item(dir int, name string, s *scanned) error {
	p := name
	if s.path != "." {
		p = s.path + "/" + name
	} else if name == manifest.ServiceDir {
		return nil
	}

	if strings.HasPrefix(name, writingPrefix) {
		if leftover(name) {
			s.leftovers = append(s.leftovers, p)
		}

		return nil
	}

	item, err := w.look(dir, name, p)
	if beneath.Vanished(err) {
		return nil // the second check of the directory detects it
	}

	if err != nil {
		return err
	}

	s.items = append(s.items, item)

	return nil
}

func (w *walker) openDir(dir string) (fd int, forced bool, err error) {
	fd, err = beneath.Open(w.root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if !w.force || !errors.Is(err, unix.EACCES) {
		return fd, false, err
	}

	found, err := beneath.Open(w.root, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, false, err
	}

	defer func() { _ = unix.Close(found) }()

	if err := unix.Chmod(beneath.ViaProc(found), 0o700); err != nil {
		return -1, false, err
	}

	fd, err = beneath.Open(w.root, dir, unix.O_RDONLY|unix.O_DIRECTORY)

	return fd, true, err
}

// look returns the entry of a name.
func (w *walker) look(dir int, name, p string) (found, error) {
	var st unix.Stat_t
	if err := sharedfs.Stat(dir, name, &st, w.fresh); err != nil {
		return found{}, err
	}

	item := found{uid: st.Uid, links: uint64(st.Nlink)}

	item.Path, item.Identity = p, manifest.IdentityOf(&st)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		item.Kind, item.Mode = manifest.Directory, uint16(st.Mode&0o777)
		if len(p) > beneath.MaxPath {
			item.Kind = manifest.Unread
		}
	case unix.S_IFLNK:
		target, err := beneath.ReadLink(dir, name)
		if err != nil {
			return found{}, err
		}

		item.Kind, item.Target = manifest.Link, target
	case unix.S_IFREG:
		item.Kind, item.Mode = manifest.File, uint16(st.Mode&0o777)
		if old := w.known.at(
			p,
		); old != nil && old.Trusted && old.Kind == manifest.File && old.Identity == item.Identity &&
			old.Mode == item.Mode &&
			w.usable(old) {
			item.Entry = *old
			return item, nil
		}

		if w.content == nil {
			return item, nil
		}

		item.read = true

		err := w.content(dir, name, &item)
		if beneath.Denied(err) {
			item.Kind, err = manifest.Unread, nil
		}

		return item, err
	default:
		item.Kind = manifest.Special
	}

	return item, nil
}

// moved checks all directories and the files read in this walk again, and reports whether any
// changed since.
func (w *walker) moved(workers int) (bool, error) {
	if len(w.lost) > 0 {
		for _, k := range w.lost {
			if k == 0 {
				return true, nil
			}
		}
	}

	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)

	changed, next := false, 0

	for range workers {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := changed || i >= len(w.scans) || w.ctx.Err() != nil
				mu.Unlock()

				if stop {
					return
				}

				if w.stirred(w.scans[i]) {
					mu.Lock()
					changed = true
					mu.Unlock()
				}
			}
		})
	}

	all.Wait()

	return changed, w.ctx.Err()
}

func (w *walker) stirred(s *scanned) bool {
	fd, err := beneath.Open(w.root, s.path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Close(fd) }()

	var st unix.Stat_t
	if err := sharedfs.Stat(fd, "", &st, w.fresh); err != nil || manifest.IdentityOf(&st) != s.id {
		return true
	}

	for i := range s.items {
		item := &s.items[i]
		if !item.read || item.Kind != manifest.File {
			continue
		}

		err := sharedfs.Stat(fd, item.Path[strings.LastIndexByte(item.Path, '/')+1:], &st, w.fresh)
		if err != nil || manifest.IdentityOf(&st) != item.Identity {
			return true
		}
	}

	return false
}

// all returns all entries of the walk, by path.
func (w *walker) all() []found {
	n := 0
	for _, s := range w.scans {
		n += len(s.items)
	}

	out := make([]found, 0, n)

	for _, s := range w.scans {
		for _, item := range s.items {
			if item.Kind == manifest.Directory {
				if k, lost := w.lost[item.Path]; lost {
					if k == 0 {
						continue
					}

					item.Kind, item.Mode = k, 0
				}
			}

			out = append(out, item)
		}
	}

	return out
}
