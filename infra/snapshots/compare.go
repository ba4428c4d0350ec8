//go:build linux

package snapshots

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
	"everloop/internal/diskspace"
	"everloop/internal/sharedfs"
)

// compare plans a restore: it sorts the paths of the workspace and of the
// snapshot by what is to be done with them.
func (r *restorer) compare(w *walker) {
	there := w.all()
	slices.SortFunc(there, func(a, b found) int { return strings.Compare(a.path, b.path) })

	forced := map[string]bool{}
	for _, s := range w.scans {
		forced[s.path] = s.forced
		r.leftovers = append(r.leftovers, s.leftovers...)
	}

	settled := map[string]bool{} // paths of the snapshot that need not be made

	for i := range there {
		f := &there[i]
		switch e := r.target.at(f.path); {
		case e == nil:
			r.remove = append(r.remove, removal{path: f.path})
		case e.kind.opaque():
			settled[f.path] = true
		case e.kind != f.kind:
			r.remove = append(r.remove, removal{path: f.path, replaced: f.kind != kindDir && e.kind.counts()})
		default:
			settled[f.path] = r.keeps(f, e, forced)
		}
	}

	for i := range r.target.entries {
		e := &r.target.entries[i]
		if settled[e.path] {
			continue
		}

		switch e.kind {
		case kindDir:
			r.makeDirs = append(r.makeDirs, e)
		case kindFile, kindLink:
			r.write = append(r.write, e)
		case kindUnread:
			r.skip(e.path, "it could not be read when the snapshot was made")
		case kindSpecial: // not restored
		}
	}
	// By directory, so that the workers do not meet.
	slices.SortStableFunc(r.write, func(a, b *entry) int {
		return cmp.Compare(parentOf(a.path), parentOf(b.path))
	})
}

// grows says how much more the workspace will hold than now. What files of the
// snapshot take is estimated from their sizes.
func (r *restorer) grows() (diskspace.Usage, error) {
	grows := diskspace.Usage{Inodes: int64(len(r.makeDirs)), Bytes: int64(len(r.makeDirs)) * diskspace.PerInode}

	goes := map[string]bool{}
	for _, d := range r.remove {
		goes[d.path] = true
	}

	for _, e := range r.write {
		grows = grows.Plus(diskspace.Usage{Bytes: e.takes() + diskspace.PerInode, Inodes: 1})
		if goes[e.path] {
			continue
		}

		old, err := r.holds(e.path)
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

// holds measures what is at a path now, with all below it.
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
		return diskspace.Usage{}, nil // gone meanwhile, or not to be reached: it frees nothing
	}

	return used, err
}

// takes estimates the space of a file's content on the disk. Chunks of zeros take none.
func (e *entry) takes() int64 {
	if e.kind != kindFile {
		return 0
	}

	bytes := e.id.size
	for _, c := range e.chunks {
		bytes -= min(c.Zeros*chunkSize, bytes)
	}

	return diskspace.Block(bytes)
}

// keeps says that what is there can stay, perhaps with another mode.
func (r *restorer) keeps(f *found, e *entry, forced map[string]bool) bool {
	owned := r.uid < 0 || int(f.uid) == r.uid

	switch e.kind {
	case kindLink:
		return f.target == e.target
	case kindDir:
		if f.mode != e.mode || !owned || forced[f.path] || f.mode&0o700 != 0o700 {
			r.fixDirs = append(r.fixDirs, e)
		}

		return true
	case kindFile, kindSpecial, kindUnread:
	}

	if f.sum != e.sum || f.size() != e.size() || !owned {
		r.local.find(f, e)
		return false
	}

	if f.mode == e.mode {
		return true
	}
	// The mode of a file that has other names may matter to another owner.
	if f.links > 1 {
		r.local.find(f, e)
		return false
	}

	r.fixModes = append(r.fixModes, modeFix{entry: e, inode: f.id.inode})

	return true
}
