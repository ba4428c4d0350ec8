//go:build linux

package snapshots

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/manifest"
	"everloop/internal/sharedfs"
)

// ChangesIn names a workspace and the snapshot to compare it with.
type ChangesIn struct {
	SnapshotID string
	SessionID  domain.SessionID
	Root       string // of the workspace, an absolute path of the host
	UID        int    // as in CaptureIn
}

// Changes returns the changes from a snapshot to the current workspace, as Diff does. It changes
// and stores nothing. It skips reading files with an unchanged identity and files with another
// size; it hashes only files of the same size that may have been rewritten.
func (s *Store) Changes(ctx context.Context, in ChangesIn) ([]Change, error) {
	if err := checkSession(in.SessionID); err != nil {
		return nil, err
	}

	before, err := s.load(ctx, in.SnapshotID)
	if err != nil {
		return nil, err
	}

	root, err := beneath.OpenRoot(in.Root)
	if err != nil {
		return nil, err
	}

	defer func() { _ = unix.Close(root) }()

	ses := s.session(in.SessionID)

	known := ses.last()
	if known == nil && before.home == ses {
		known = before
	}

	r := &reader{ctx: ctx, sink: discard{}, quiet: time.Now().Add(-s.grain).UnixNano(), fresh: sharedfs.CachesAttributes(root)}
	w := &walker{
		ctx: ctx, root: root, known: known, most: s.most,
		usable: func(*manifest.Entry) bool { return true },
		content: func(dir int, name string, f *found) error {
			if foreign(f, in.UID) {
				f.Kind = manifest.Unread
				return nil
			}

			if e := before.at(f.Path); e == nil || e.Kind != manifest.File || e.Identity.Size != f.Identity.Size {
				return nil // its content does not matter
			}

			return r.read(dir, name, f)
		},
	}

	if err := w.run(s.workers); err != nil {
		return nil, err
	}

	return differences(before.entries, arrange(ses, w.all()).entries), nil
}
