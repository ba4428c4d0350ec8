//go:build linux

package snapshots

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/manifest"
	"everloop/internal/diskspace"
	"everloop/internal/sharedfs"
)

// compare plans a restore: it decides for each path of the workspace and of the snapshot whether
// to keep, write, delete or chmod it.
func (r *restorer) compare(w *walker) {
	there := w.all()
	slices.SortFunc(there, func(a, b found) int { return strings.Compare(a.Path, b.Path) })

	forced := map[string]bool{}
	for _, s := range w.scans {
		forced[s.path] = s.forced
		r.leftovers = append(r.leftovers, s.leftovers...)
	}

	settled := map[string]bool{} // paths of the snapshot that need no write

	for i := range there {
		f := &there[i]
		switch e := r.target.at(f.Path); {
		case e == nil:
			r.remove = append(r.remove, removal{path: f.Path})
		case e.Kind.Opaque():
			settled[f.Path] = true
		case e.Kind != f.Kind:
			r.remove = append(r.remove, removal{path: f.Path, replaced: f.Kind != manifest.Directory && e.Kind.Counts()})
		default:
			settled[f.Path] = r.keeps(f, e, forced)
		}
	}

	for i := range r.target.entries {
		e := &r.target.entries[i]
		if settled[e.Path] {
			continue
		}

		switch e.Kind {
		case manifest.Directory:
			r.makeDirs = append(r.makeDirs, e)
		case manifest.File, manifest.Link:
			r.write = append(r.write, e)
		case manifest.Unread:
			r.skip(e.Path, "it could not be read when the snapshot was made")
		case manifest.Special: // not restored
		}
	}
	// By directory: each directory has one worker.
	slices.SortStableFunc(r.write, func(a, b *manifest.Entry) int {
		return cmp.Compare(parentOf(a.Path), parentOf(b.Path))
	})
}

// grows returns the disk usage that the restore adds to the workspace. The usage of the
// snapshot's files is estimated from their sizes.
func (r *restorer) grows() (diskspace.Usage, error) {
	grows := diskspace.Usage{Inodes: int64(len(r.makeDirs)), Bytes: int64(len(r.makeDirs)) * diskspace.PerInode}

	goes := map[string]bool{}
	for _, d := range r.remove {
		goes[d.path] = true
	}

	for _, e := range r.write {
		grows = grows.Plus(diskspace.Usage{Bytes: takes(e) + diskspace.PerInode, Inodes: 1})
		if goes[e.Path] {
			continue
		}

		old, err := r.holds(e.Path)
		if err != nil {
			return grows, err
		}

		grows = grows.Minus(old)
	}

	for _, d := range r.remove {
		old, err := r.holds(d.path)
		if err != nil {
			return grows, err
		}

		grows = grows.Minus(old)
	}

	return grows, nil
}

// holds measures the disk usage of a path and everything below it.
func (r *restorer) holds(p string) (used diskspace.Usage, err error) {
	err = r.within(p, func(dir int, name string) error {
		var st unix.Stat_t
		if err := sharedfs.Stat(dir, name, &st, false); err != nil {
			return err
		}

		used = diskspace.Usage{Bytes: st.Blocks*512 + diskspace.PerInode, Inodes: 1}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}

		fd, err := beneath.Open(dir, name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}

		defer func() { _ = unix.Close(fd) }()

		below, err := diskspace.Measure(r.ctx, beneath.ViaProc(fd)+"/.", diskspace.Usage{})
		used = used.Plus(below)

		return err
	})
	if err != nil && r.ctx.Err() == nil {
		return diskspace.Usage{}, nil // deleted in the meantime or inaccessible: it frees nothing
	}

	return used, err
}

// takes estimates the disk usage of a file's content. Chunks of zeros take none.
func takes(e *manifest.Entry) int64 {
	if e.Kind != manifest.File {
		return 0
	}

	bytes := e.Identity.Size
	for _, c := range e.Chunks {
		bytes -= min(c.Zeros*chunkSize, bytes)
	}

	return diskspace.Block(bytes)
}

// keeps reports whether the existing entry can stay, possibly with another mode.
func (r *restorer) keeps(f *found, e *manifest.Entry, forced map[string]bool) bool {
	owned := r.uid < 0 || int(f.uid) == r.uid

	switch e.Kind {
	case manifest.Link:
		return f.Target == e.Target
	case manifest.Directory:
		if f.Mode != e.Mode || !owned || forced[f.Path] || f.Mode&0o700 != 0o700 {
			r.fixDirs = append(r.fixDirs, e)
		}

		return true
	case manifest.File, manifest.Special, manifest.Unread:
	}

	if f.Sum != e.Sum || f.Size() != e.Size() || !owned {
		r.local.find(f, e)
		return false
	}

	if f.Mode == e.Mode {
		return true
	}
	// Another name of the file can belong to another owner.
	if f.links > 1 {
		r.local.find(f, e)
		return false
	}

	r.fixModes = append(r.fixModes, modeFix{entry: e, inode: f.Identity.Inode})

	return true
}
