//go:build linux

package snapshots

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
	"everloop/internal/rmtree"
	"everloop/internal/sharedfs"
)

// restoringPrefix marks temporary files of a restore. The next restore removes the leftovers of
// an interrupted one.
const restoringPrefix = writingPrefix + "restore-"

// restorer executes a restore.
type restorer struct {
	ctx      context.Context
	root     int
	uid, gid int // -1: the service's user
	workers  int
	target   *tree
	contents *fetched
	local    local

	leftovers []string // of an interrupted restore
	remove    []removal
	makeDirs  []*manifest.Entry
	fixDirs   []*manifest.Entry // existing directories whose mode or owner is set at the end
	write     []*manifest.Entry
	fixModes  []modeFix

	mu   sync.Mutex
	done Restored
}

type removal struct {
	path string
	// replaced reports that a file or link replaces this path, which then does not count as
	// deleted.
	replaced bool
}

type modeFix struct {
	entry *manifest.Entry
	inode uint64
}

// apply executes the plan of compare. Deletions precede writes to free space; directory modes are
// set last, because they can forbid writing.
func (r *restorer) apply() error {
	steps := []func() error{r.openDirs, r.removeLeftovers, r.deletions, r.directories, r.files, r.modes, r.dirModes}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}

	slices.SortStableFunc(r.done.Skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	r.done.Skipped = slices.CompactFunc(r.done.Skipped, func(a, b Skipped) bool { return a.Path == b.Path })

	return nil
}

func (r *restorer) skip(p, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.done.Skipped = append(r.done.Skipped, Skipped{Path: p, Reason: why})
}

func (r *restorer) restored() {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.done.Restored++
}

// tolerate records a path that cannot be restored; other errors end the restore.
func (r *restorer) tolerate(p string, err error) error {
	if err == nil {
		return nil
	}

	if why := reason(err); why != "" && r.ctx.Err() == nil {
		r.skip(p, why)
		return nil
	}

	return fault(p, err)
}

// parent opens the parent directory of a path.
func (r *restorer) parent(p string) (dir int, name string, err error) {
	dir, err = beneath.Open(r.root, parentOf(p), unix.O_PATH|unix.O_DIRECTORY)
	return dir, p[strings.LastIndexByte(p, '/')+1:], err
}

// within calls do with the open parent directory of a path.
func (r *restorer) within(p string, do func(dir int, name string) error) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}

	dir, name, err := r.parent(p)
	if err != nil {
		return err
	}

	defer func() { _ = unix.Close(dir) }()

	return do(dir, name)
}

// openDirs makes existing directories writable for the service. Root needs no permission, so it
// does nothing for root.
func (r *restorer) openDirs() error {
	if os.Geteuid() == 0 {
		return nil
	}

	for _, e := range r.fixDirs {
		if err := r.tolerate(e.Path, r.setDir(e.Path, 0o700|uint32(e.Mode))); err != nil {
			return err
		}
	}

	return nil
}

// setDir sets a directory's mode and owner.
func (r *restorer) setDir(p string, mode uint32) error {
	fd, err := beneath.Open(r.root, p, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()

	if r.uid >= 0 {
		if err := unix.Fchownat(fd, "", r.uid, r.gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}

	return unix.Chmod(beneath.ViaProc(fd), mode)
}

func (r *restorer) deletions() error {
	for _, d := range r.remove {
		files := 0

		err := r.within(d.path, func(dir int, name string) (err error) {
			files, err = rmtree.Remove(r.ctx, dir, name, restoringPrefix)
			return err
		})
		if d.replaced && files > 0 {
			files--
		}

		r.done.Deleted += files

		if errors.Is(err, unix.ENOENT) {
			continue
		}

		if err := r.tolerate(d.path, err); err != nil {
			return err
		}
	}

	return nil
}

func (r *restorer) directories() error {
	for _, e := range r.makeDirs {
		err := r.within(e.Path, func(dir int, name string) error {
			if err := unix.Mkdirat(dir, name, 0o700); err != nil {
				return err
			}

			if r.uid < 0 {
				return nil
			}

			return unix.Fchownat(dir, name, r.uid, r.gid, unix.AT_SYMLINK_NOFOLLOW)
		})
		if err := r.tolerate(e.Path, err); err != nil {
			return err
		}
	}

	return nil
}

// files writes files and links, with one worker per directory.
func (r *restorer) files() error {
	group, ctx := errgroup.WithContext(r.ctx)
	group.SetLimit(r.workers)

	for start := 0; start < len(r.write) && ctx.Err() == nil; {
		in, end := parentOf(r.write[start].Path), start
		for end < len(r.write) && end-start < 500 && parentOf(r.write[end].Path) == in {
			end++
		}

		list := r.write[start:end]
		start = end

		group.Go(func() error { return r.fill(ctx, in, list) })
	}

	if err := group.Wait(); err != nil {
		return err
	}

	return r.ctx.Err()
}

// fill writes the files and links of one directory.
func (r *restorer) fill(ctx context.Context, in string, list []*manifest.Entry) error {
	dir, err := beneath.Open(r.root, in, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer func() { _ = unix.Close(dir) }()
	}

	for _, e := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}

		failed := err
		if failed == nil {
			failed = r.put(dir, e)
		}

		if failed == nil {
			r.restored()
		} else if err := r.tolerate(e.Path, failed); err != nil {
			return err
		}
	}

	return nil
}

// put writes a file or link under a temporary name and renames it into place, so that no reader
// sees a partial file.
func (r *restorer) put(dir int, e *manifest.Entry) error {
	temp := restoringPrefix + rand.Text()

	make := r.makeFile
	if e.Kind == manifest.Link {
		make = r.makeLink
	}

	err := make(dir, temp, e)
	if err == nil {
		err = sharedfs.Rename(dir, temp, dir, e.Path[strings.LastIndexByte(e.Path, '/')+1:])
	}

	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
	}

	return err
}

func (r *restorer) makeLink(dir int, temp string, e *manifest.Entry) error {
	if err := unix.Symlinkat(e.Target, dir, temp); err != nil {
		return err
	}

	if r.uid < 0 {
		return nil
	}

	return unix.Fchownat(dir, temp, r.uid, r.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// makeFile writes a file with owner, mode and flushed content under a temporary name.
func (r *restorer) makeFile(dir int, temp string, e *manifest.Entry) error {
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}

	f := os.NewFile(uintptr(fd), "file of a workspace")
	defer func() { _ = f.Close() }()

	if err := r.content(dir, f, e); err != nil {
		return err
	}

	if err := sharedfs.Flush(fd); err != nil { // flush before the rename
		return err
	}

	if r.uid >= 0 {
		if err := unix.Fchown(fd, r.uid, r.gid); err != nil {
			return err
		}
	}

	if err := unix.Fchmod(fd, uint32(e.Mode)); err != nil {
		return err
	}

	mtime := unix.NsecToTimespec(e.Identity.MTime)

	return unix.UtimesNanoAt(fd, "", []unix.Timespec{mtime, mtime}, unix.AT_EMPTY_PATH)
}

// content copies a file's content from the spool, or from the file at its path. Chunks of zeros,
// and blocks of zeros in other chunks, become holes.
func (r *restorer) content(dir int, f *os.File, e *manifest.Entry) error {
	if e.Identity.Size == 0 {
		return nil
	}

	if e.Chunks == nil {
		pool := buffersFor(e.Identity.Size)

		pooled := pool.Get().(*[]byte)
		defer pool.Put(pooled)

		data, err := r.contents.spool.Read(r.contents.blobs[e.Sum], *pooled)
		if err == nil {
			_, err = f.Write(data)
		}

		return err
	}

	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)

	if err := f.Truncate(e.Identity.Size); err != nil {
		return err
	}

	old, err := r.openLocal(dir, e)
	if err != nil {
		return err
	}

	if old != nil {
		defer func() { _ = old.Close() }()
	}

	for index, sum := range format.DataOf(e.Chunks) {
		if err := r.ctx.Err(); err != nil {
			return err
		}

		data, err := r.data(old, e, index, sum, *pooled)
		if err != nil {
			return err
		}

		at := index * chunkSize

		for block := range slices.Chunk(data, format.ZeroBlock) {
			if !format.IsZero(block) {
				if _, err := f.WriteAt(block, at); err != nil {
					return err
				}
			}

			at += int64(len(block))
		}
	}

	return nil
}

// modes restores the modes of files whose content is unchanged.
func (r *restorer) modes() error {
	for _, fix := range r.fixModes {
		err := r.within(fix.entry.Path, func(dir int, name string) error {
			fd, err := beneath.Open(dir, name, unix.O_PATH)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()

			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return err
			}

			if st.Ino != fix.inode || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 {
				return beneath.ErrNotRegular
			}

			return unix.Chmod(beneath.ViaProc(fd), uint32(fix.entry.Mode))
		})
		if err == nil {
			r.done.Restored++
		} else if err := r.tolerate(fix.entry.Path, err); err != nil {
			return err
		}
	}

	return nil
}

// dirModes sets the modes of directories, the deepest first, because a directory without search
// permission blocks access to its children.
func (r *restorer) dirModes() error {
	list := slices.Concat(r.makeDirs, r.fixDirs)
	slices.SortFunc(list, func(a, b *manifest.Entry) int { return strings.Compare(b.Path, a.Path) })

	for _, e := range list {
		if err := r.ctx.Err(); err != nil {
			return err
		}

		if err := r.tolerate(e.Path, r.setDir(e.Path, uint32(e.Mode))); err != nil {
			return err
		}
	}

	return nil
}
