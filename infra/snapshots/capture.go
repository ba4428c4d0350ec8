//go:build linux

package snapshots

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/manifest"
	"everloop/infra/snapshots/spool"
	"everloop/internal/sharedfs"
)

const (
	// clockGrain is the minimum age of a file's last change, at the time of a walk, for the next
	// walk to trust its identity: file system clocks are coarse, and clocks of other machines
	// differ.
	clockGrain = 2 * time.Second
	// busyGrain replaces clockGrain while commands run: writes through a memory mapping change
	// the file's times only at writeback, every 30 s or so.
	busyGrain = time.Minute
	// walkRounds is the maximum number of walks of a changing tree.
	walkRounds = 3
)

// CaptureIn describes a capture.
type CaptureIn struct {
	SessionID domain.SessionID
	Root      string // of the workspace, an absolute path of the host
	// UID is the session's host user. Files of other users with more than one link are skipped:
	// they could belong to another session. 0: files of any user.
	UID int
	// Previous is the snapshot to compare with; "" is the empty one. It can belong to another
	// session, of which this one started as a copy.
	Previous string
	// Busy reports that commands of the session can write during the capture.
	Busy bool
}

// Snapshot describes a snapshot. Files, Bytes, Added, Deleted and Changed count
// files and links, not directories.
type Snapshot struct {
	ID    string
	Files int
	Bytes int64 // total size of files
	// Added, Deleted and Changed compare with the previous one.
	Added, Deleted, Changed int
	// Skipped counts the entries that are not stored: sockets, pipes, devices and unreadable
	// files. A restore does not touch them.
	Skipped int
	// Complete reports that the workspace did not change during the capture and was readable
	// entirely.
	Complete bool
	// Stored is the number of bytes that Finish has stored.
	Stored int64
}

// Pending is a snapshot whose contents are spooled but not stored.
type Pending struct {
	store    *Store
	ses      *session
	snapshot Snapshot
	tree     *tree // nil: nothing to store
	base     *tree // a stored tree whose contents need not be read again, or nil

	spool  spool.File
	mu     sync.Mutex
	blobs  map[hash]spool.Extent
	chunks map[hash]spool.Extent
}

// Capture takes a snapshot: Begin followed by Finish.
func (s *Store) Capture(ctx context.Context, in CaptureIn) (Snapshot, error) {
	p, err := s.Begin(ctx, in)
	if err != nil {
		return Snapshot{}, err
	}
	defer p.Discard()

	return p.Finish(ctx)
}

// Begin reads the workspace into the spool. When it returns, commands can write again. Finish
// stores the contents. Discard frees the spool of an abandoned snapshot; after a successful
// Finish it does nothing.
func (s *Store) Begin(ctx context.Context, in CaptureIn) (*Pending, error) {
	if err := checkSession(in.SessionID); err != nil {
		return nil, err
	}

	ses := s.session(in.SessionID)

	previous, err := s.previous(ctx, in)
	if err != nil {
		return nil, err
	}

	root, err := beneath.OpenRoot(in.Root)
	if err != nil {
		return nil, err
	}

	defer func() { _ = unix.Close(root) }()

	p := &Pending{
		store: s, ses: ses, spool: spool.File{Dir: s.spool, Reserve: s.reserve},
		blobs: map[hash]spool.Extent{}, chunks: map[hash]spool.Extent{},
	}
	if err := p.read(ctx, root, in, previous); err != nil {
		p.Discard()
		return nil, err
	}

	return p, nil
}

// previous loads the snapshot to compare with. An unavailable snapshot is reported, and
// everything counts as new.
func (s *Store) previous(ctx context.Context, in CaptureIn) (*tree, error) {
	if in.Previous == "" {
		return nil, nil
	}

	t, err := s.load(ctx, in.Previous)
	if domain.HasCode(err, CodeDamaged) || domain.HasCode(err, CodeNotFound) {
		s.log.WarnContext(
			ctx,
			"failed to read the previous snapshot, capturing all files again",
			"session_id",
			in.SessionID,
			"error",
			err,
		)

		return nil, nil
	}

	return t, err
}

// read repeats the walk until the tree was stable during one, at most walkRounds times.
func (p *Pending) read(ctx context.Context, root int, in CaptureIn, previous *tree) error {
	known := p.ses.last()
	if known == nil && previous != nil && previous.home.id == in.SessionID {
		known = previous
	}

	p.snapshot.Complete = !in.Busy
	for round := 1; ; round++ {
		w, quiet, err := p.walk(ctx, root, in, known)
		if err != nil {
			return err
		}

		moved := !quiet
		if quiet && !in.Busy {
			if moved, err = w.moved(p.store.workers); err != nil {
				return err
			}
		}

		if again := moved && !in.Busy && round < walkRounds; !again {
			p.snapshot.Complete = p.snapshot.Complete && !moved
			p.settle(w, in, known, previous)

			return nil
		}

		known = arrange(p.ses, w.all())
	}
}

// walk reads the whole tree once. quiet reports that no file changed while it was read.
func (p *Pending) walk(ctx context.Context, root int, in CaptureIn, known *tree) (w *walker, quiet bool, err error) {
	grain := p.store.grain
	if in.Busy {
		grain = busyGrain
	}

	r := &reader{ctx: ctx, sink: p, quiet: time.Now().Add(-grain).UnixNano(), fresh: sharedfs.CachesAttributes(root)}

	usable := p.has
	if known != nil && known.home == p.ses && known.stored.Load() {
		usable = func(*manifest.Entry) bool { return true }
		p.base = known
	}

	w = &walker{
		ctx:    ctx,
		root:   root,
		known:  known,
		usable: usable,
		most:   p.store.most,
		content: func(dir int, name string, f *found) error {
			if foreign(f, in.UID) {
				f.Kind = manifest.Unread
				return nil
			}

			return r.read(dir, name, f)
		},
	}
	err = w.run(p.store.workers)

	return w, !r.unstable, err
}

// foreign reports that a file belongs to another user, who could have linked it into several
// workspaces.
func foreign(f *found, uid int) bool {
	return uid > 0 && os.Geteuid() == 0 && int(f.uid) != uid && f.links > 1
}

// arrange returns the tree of the entries of a walk.
func arrange(home *session, list []found) *tree {
	entries := make([]manifest.Entry, len(list))
	for i := range list {
		entries[i] = list[i].Entry
		if e := &entries[i]; e.Kind.Opaque() {
			*e = manifest.Entry{Path: e.Path, Kind: e.Kind}
		}
	}

	slices.SortFunc(entries, func(a, b manifest.Entry) int { return strings.Compare(a.Path, b.Path) })

	return newTree(home, entries)
}

// settle counts the differences from the previous snapshot and sets the tree to store.
func (p *Pending) settle(w *walker, in CaptureIn, known, previous *tree) {
	list := w.all()
	equal, read := 0, false

	for i := range list {
		f := &list[i]

		read = read || f.read
		if f.Kind.Opaque() {
			p.snapshot.Skipped++
			p.snapshot.Complete = p.snapshot.Complete && f.Kind != manifest.Unread
			f.Entry = manifest.Entry{Path: f.Path, Kind: f.Kind}
		}

		if f.Kind.Counts() {
			p.snapshot.Files++
			p.snapshot.Bytes += f.Size()
		}

		old := previous.at(f.Path)
		switch {
		case old != nil && old.Same(&f.Entry):
			equal++
		case !f.Kind.Counts():
		case old != nil && old.Kind.Counts():
			p.snapshot.Changed++
		default:
			p.snapshot.Added++
		}
	}

	if previous != nil {
		for i := range previous.entries {
			e := &previous.entries[i]
			if !e.Kind.Counts() {
				continue
			}

			p.snapshot.Deleted++
		}
	}

	p.snapshot.Deleted -= p.snapshot.Files - p.snapshot.Added

	unchanged := previous != nil && previous.home.id == in.SessionID && equal == len(list) && equal == len(previous.entries)
	if unchanged {
		p.snapshot.ID = in.Previous

		if !read && known != nil && len(known.entries) == len(list) {
			return // the cached tree is current, too
		}
	}

	t := arrange(p.ses, list)
	if unchanged {
		t.sum, t.contents = previous.sum, previous.contents
		t.stored.Store(true)
		p.ses.walked(t)

		return
	}

	t.sum = t.identify()
	p.snapshot.ID, p.tree = makeID(in.SessionID, t.sum), t
	p.ses.walked(t)
}

// has reports whether a file's content is in the store or being stored.
func (p *Pending) has(e *manifest.Entry) bool {
	if p.ses.holds(e) {
		return true
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if e.Chunks == nil {
		_, here := p.blobs[e.Sum]
		return here || p.carries(e.Sum)
	}

	for _, c := range e.Chunks {
		if _, here := p.chunks[c.Sum]; c.Zeros == 0 && !here && !p.ses.chunkKnown(c.Sum) {
			return false
		}
	}

	return true
}

func (p *Pending) small(sum hash, data []byte) error {
	if p.ses.blobKnown(sum) || p.carries(sum) {
		return nil
	}

	return p.keep(p.blobs, sum, data)
}

// carries reports whether the manifest of the base tree contains a content.
func (p *Pending) carries(sum hash) bool {
	_, here := p.base.content(sum)
	return here
}

func (p *Pending) chunk(sum hash, data []byte) error {
	if p.ses.chunkKnown(sum) {
		return nil
	}

	return p.keep(p.chunks, sum, data)
}

// keep adds a content to the spool, once. A failure ends the whole capture.
func (p *Pending) keep(in map[hash]spool.Extent, sum hash, data []byte) error {
	p.mu.Lock()

	_, here := in[sum]
	if !here {
		in[sum] = spool.Extent{}
	}
	p.mu.Unlock()

	if here {
		return nil
	}

	at, err := p.spool.Add(data)
	if err != nil {
		return err
	}

	p.mu.Lock()
	in[sum] = at
	p.mu.Unlock()

	return nil
}

// Snapshot returns the result of a successful Finish.
func (p *Pending) Snapshot() Snapshot { return p.snapshot }

// Needs returns the maximum size of new contents that Finish stores, in bytes before compression.
func (p *Pending) Needs() int64 {
	if p.tree == nil || p.tree.stored.Load() {
		return 0
	}

	return p.spool.Size()
}

// Discard frees the disk space of the spool.
func (p *Pending) Discard() { p.spool.Close() }
