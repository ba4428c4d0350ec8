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
	// clockGrain is how long a file must have been left alone before the walk for
	// its identity to be trusted in the next one: clocks of file systems tick
	// slowly, and those of other machines differ.
	clockGrain = 2 * time.Second
	// busyGrain is the same while commands run: what one writes through a memory
	// mapping shows in the times of the file only when the kernel writes it out,
	// every 30 s or so.
	busyGrain = time.Minute
	// walkRounds is how often the tree is walked when it changes in the meantime.
	walkRounds = 3
)

// CaptureIn says what is captured.
type CaptureIn struct {
	SessionID domain.SessionID
	Root      string // of the workspace, a path of the host
	// UID is the session's host user. Files of others that have more than one
	// name are left out: they could be another user's. 0: files of any user.
	UID int
	// Previous is the snapshot that this one is compared with; "" is the empty one.
	// It may be of another session, which this one started as a copy of.
	Previous string
	// Busy reports that commands of the session may be writing.
	Busy bool
}

// Snapshot describes a snapshot. Files, Bytes, Added, Deleted and Changed count
// files and links, not directories.
type Snapshot struct {
	ID    string
	Files int
	Bytes int64 // of all files together
	// Added, Deleted and Changed compare with the previous one.
	Added, Deleted, Changed int
	// Skipped counts what was there and is not kept: sockets, pipes, devices, and
	// what could not be read. A restore leaves them alone.
	Skipped int
	// Complete reports that the workspace was quiet and could be read as a whole.
	Complete bool
	// Stored is how many bytes of objects Finish has stored.
	Stored int64
}

// Pending is a snapshot whose contents were read and are still to be stored.
type Pending struct {
	store    *Store
	ses      *session
	snapshot Snapshot
	tree     *tree // nil: nothing must be stored
	base     *tree // a stored one whose contents need not be read again; nil: none

	spool  spool.File
	mu     sync.Mutex
	blobs  map[hash]spool.Extent
	chunks map[hash]spool.Extent
}

// Capture takes a snapshot: Begin and Finish in one.
func (s *Store) Capture(ctx context.Context, in CaptureIn) (Snapshot, error) {
	p, err := s.Begin(ctx, in)
	if err != nil {
		return Snapshot{}, err
	}
	defer p.Discard()

	return p.Finish(ctx)
}

// Begin reads the workspace. When it returns, commands may write again: what is
// to be stored lies in the spool. Finish stores it. Discard frees the spool of a
// snapshot that is given up; after a Finish without error it does nothing.
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

// previous loads the snapshot to compare with. One that cannot be had any more
// is reported, and everything counts as new.
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

// read walks until the tree held still, or often enough.
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

// walk looks at everything once. quiet reports that no file changed while it was read.
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

// foreign reports that a file belongs to another user, who may have linked it elsewhere.
func foreign(f *found, uid int) bool {
	return uid > 0 && os.Geteuid() == 0 && int(f.uid) != uid && f.links > 1
}

// arrange makes a tree of what a walk found.
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

// settle compares with the previous snapshot and keeps what must be stored.
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
			return // nothing was learned either
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

// has reports whether a file's content is in the store or on its way there.
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

// carries reports whether the manifest of the tree that the walk compares with holds a content.
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

// keep puts a content into the spool, once. A failure ends the whole capture.
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

// Snapshot returns what Finish will, unless Finish fails.
func (p *Pending) Snapshot() Snapshot { return p.snapshot }

// Needs returns the most that Finish will store of new contents, in bytes before they are compressed.
func (p *Pending) Needs() int64 {
	if p.tree == nil || p.tree.stored.Load() {
		return 0
	}

	return p.spool.Size()
}

// Discard frees what the snapshot holds of the disk.
func (p *Pending) Discard() { p.spool.Close() }
