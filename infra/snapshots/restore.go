//go:build linux

package snapshots

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/manifest"
	"everloop/infra/snapshots/spool"
	"everloop/internal/diskspace"
	"everloop/internal/sharedfs"
)

// RestoreIn describes a restore.
type RestoreIn struct {
	SnapshotID string
	// SessionID is the session of the workspace Root; "": the snapshot's session. They differ
	// when a session starts as a copy of another.
	SessionID domain.SessionID
	Root      string // of the workspace, an absolute path of the host
	// UID and GID are the owner of restored files when the service is root; 0: the service's own
	// user.
	UID, GID int
	// Current is the newest snapshot of this workspace, if any: files with an unchanged identity
	// are not read.
	Current string
	// Fits is called with the additional disk usage before anything is fetched or changed; its
	// error ends the restore. Nil: no limit, and the disk's reserve can be used, because a
	// restore recreates earlier content.
	Fits func(ctx context.Context, grows diskspace.Usage) error
}

// Restored is the result of a restore. The counts are files and links.
type Restored struct {
	Restored int // written, or their mode restored
	Deleted  int
	Skipped  []Skipped // unrestored paths, sorted
}

// Skipped is a path that a restore did not change.
type Skipped struct {
	Path, Reason string
}

// Restore resets a workspace to a snapshot. It changes only differences, deletes paths that the
// snapshot does not contain, and does not touch the service's own directory. It fetches and
// verifies all contents before the first change.
//
// An interrupted restore can be run again, which completes it. No command of the session should
// run in the meantime: a path with a concurrent change is Skipped or remains as the command left
// it.
func (s *Store) Restore(ctx context.Context, in RestoreIn) (Restored, error) {
	target, err := s.load(ctx, in.SnapshotID)
	if err != nil {
		return Restored{}, err
	}

	home := target.home
	if in.SessionID != "" && in.SessionID != home.id {
		if err := checkSession(in.SessionID); err != nil {
			return Restored{}, err
		}

		home = s.session(in.SessionID)
	}

	root, err := beneath.OpenRoot(in.Root)
	if err != nil {
		return Restored{}, err
	}

	defer func() { _ = unix.Close(root) }()

	w, err := s.survey(ctx, root, s.current(ctx, in, home), target)
	if err != nil {
		return Restored{}, err
	}

	r := &restorer{ctx: ctx, root: root, uid: -1, gid: -1, workers: s.workers, target: target, local: local{}}
	if in.UID > 0 && os.Geteuid() == 0 {
		r.uid, r.gid = in.UID, in.GID
		if r.gid <= 0 {
			r.gid = in.UID
		}
	}

	r.compare(w)

	if in.Fits != nil {
		grows, err := r.grows()
		if err == nil {
			err = in.Fits(ctx, grows)
		}

		if err != nil {
			return Restored{}, err
		}
	}

	waiting := spool.File{Dir: s.spool}
	if in.Fits != nil {
		waiting.Reserve = s.reserve
	}
	defer waiting.Close()

	var need []*manifest.Entry

	for _, e := range r.write {
		if e.Kind == manifest.File {
			need = append(need, e)
		}
	}

	from := source{store: s, id: in.SnapshotID, tree: target}
	if r.contents, err = from.fetch(ctx, need, r.local, &waiting); err != nil {
		return Restored{}, err
	}

	err = r.apply()

	return r.done, err
}

// current returns the cached or stored tree of the workspace. It only saves time, so errors are
// ignored.
func (s *Store) current(ctx context.Context, in RestoreIn, home *session) *tree {
	if t := home.last(); t != nil {
		return t
	}

	if in.Current == "" {
		return nil
	}

	t, err := s.load(ctx, in.Current)
	if err != nil {
		s.log.WarnContext(
			ctx,
			"failed to read the current snapshot, comparing all files by content",
			"session_id",
			home.id,
			"error",
			err,
		)

		return nil
	}

	return t
}

// survey walks the workspace, and reads the files whose content may match the snapshot.
func (s *Store) survey(ctx context.Context, root int, known, target *tree) (*walker, error) {
	r := &reader{ctx: ctx, sink: discard{}, quiet: time.Now().Add(-s.grain).UnixNano(), fresh: sharedfs.CachesAttributes(root)}
	w := &walker{
		ctx: ctx, root: root, known: known, force: true, most: s.most + len(target.entries),
		usable: func(*manifest.Entry) bool { return true },
		// A directory that the snapshot does not contain is deleted as a whole.
		enter: func(p string) bool { e := target.at(p); return e != nil && e.Kind == manifest.Directory },
		content: func(dir int, name string, f *found) error {
			e := target.at(f.Path)
			if e == nil || e.Kind != manifest.File {
				return nil
			}
			// Two large files can share chunks.
			if e.Identity.Size == f.Identity.Size || e.Chunks != nil && f.Identity.Size > smallLimit {
				return r.read(dir, name, f)
			}

			return nil
		},
	}

	return w, w.run(s.workers)
}
