//go:build linux

package snapshots

import (
	"cmp"
	"slices"
	"strings"
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
		}
	}
	// By directory, so that the workers do not meet.
	slices.SortStableFunc(r.write, func(a, b *entry) int {
		return cmp.Compare(parentOf(a.path), parentOf(b.path))
	})
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
	}
	if f.sum != e.sum || f.size() != e.size() || !owned {
		r.local.find(f, e)
		return false
	}
	if f.mode == e.mode {
		return true
	}
	// The mode of a file that has other names may be somebody else's business.
	if f.links > 1 {
		r.local.find(f, e)
		return false
	}
	r.fixModes = append(r.fixModes, modeFix{entry: e, inode: f.id.inode})
	return true
}
