//go:build linux

package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
	"everloop/infra/snapshots/spool"
)

// gate stands before a store of objects: it counts, stops and changes.
type gate struct {
	Objects
	before func(ctx context.Context, key string) error
	after  func(key string, data []byte) ([]byte, error)

	mu  sync.Mutex
	put []string
}

func (g *gate) pass(ctx context.Context, key string) error {
	g.mu.Lock()
	defer g.mu.Unlock()

	if g.before == nil {
		return nil
	}

	return g.before(ctx, key)
}

func (g *gate) Put(ctx context.Context, key string, data []byte) error {
	if err := g.pass(ctx, key); err != nil {
		return err
	}

	err := g.Objects.Put(ctx, key, data)
	g.mu.Lock()
	defer g.mu.Unlock()

	if err == nil {
		g.put = append(g.put, key)
	}

	return err
}

func (g *gate) Get(ctx context.Context, key string) ([]byte, error) {
	return g.got(ctx, key, func() ([]byte, error) { return g.Objects.Get(ctx, key) })
}

func (g *gate) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return g.got(ctx, key, func() ([]byte, error) { return g.Objects.GetRange(ctx, key, offset, length) })
}

func (g *gate) got(ctx context.Context, key string, get func() ([]byte, error)) ([]byte, error) {
	if err := g.pass(ctx, key); err != nil {
		return nil, err
	}

	data, err := get()
	if err == nil && g.after != nil {
		data, err = g.after(key, data)
	}

	return data, err
}

// checkWhole reads every snapshot that the store names, to the last byte.
func checkWhole(t *testing.T, b *bench, keys []string) {
	t.Helper()
	s := b.fresh(t, b.objects)

	for _, key := range keys {
		_, name, found := strings.Cut(key, "/manifests/")
		if !found {
			continue
		}

		v, err := s.View(t.Context(), string(b.session)+"."+name)
		require.NoError(t, err)
		require.NoError(t, v.Walk(func(i Info) error {
			if i.Type != File {
				return nil
			}

			r, _, err := v.Open(t.Context(), i.Path)
			if err != nil {
				return err
			}

			_, err = io.Copy(io.Discard, r)

			return err
		}))
	}
}

func (b *bench) variety(t *testing.T) {
	b.put(t, "small", "x")
	b.put(t, "dir/other", strings.Repeat("y", 3000))
	b.put(t, "large", strings.Repeat("z", smallLimit+1)+"1")
	b.link(t, "small", "ln")
	b.mkdir(t, "void")
}

// Whatever request breaks: nothing refers to what is not there, and the next try
// makes it whole.
func TestCapture_interrupted(t *testing.T) {
	t.Parallel()

	t.Run("chunk, head", func(t *testing.T) {
		t.Parallel()
		captureInterrupted(t, 2, func(s *Store) *Store { return s })
	})
	t.Run("pack, chunk, part, head", func(t *testing.T) {
		t.Parallel()
		captureInterrupted(t, 4, apart)
	})
}

func captureInterrupted(t *testing.T, requests int, adjust func(*Store) *Store) {
	t.Helper()
	b := newBench(t)
	b.variety(t)
	want := picture(t, b.root)
	gone := errors.New("the line is cut")

	for at := 1; ; at++ {
		b.session = domain.SessionID("0190-s" + strings.Repeat("x", at))
		n := 0
		g := &gate{Objects: b.objects, before: func(context.Context, string) error {
			if n++; n >= at {
				return gone
			}

			return nil
		}}
		b.store = adjust(b.fresh(t, g))
		p, err := b.store.Begin(t.Context(), b.in(""))
		require.NoError(t, err)
		_, err = p.Finish(t.Context())
		checkWhole(t, b, g.put)

		if err == nil {
			require.Equal(t, requests+1, at)
			break
		}

		require.ErrorIs(t, err, gone)

		for _, key := range g.put {
			require.NotContains(t, key, "/manifests/")
		}
		// Another capture that starts before this one was tried again.
		g.before = nil
		early, err := b.store.Begin(t.Context(), b.in(""))
		require.NoError(t, err)
		s, err := p.Finish(t.Context())
		require.NoError(t, err)
		again, err := early.Finish(t.Context())
		require.NoError(t, err)
		require.Equal(t, s.ID, again.ID)
		checkWhole(t, b, g.put)
		require.NoError(t, os.RemoveAll(filepath.Join(b.root, "dir")))
		require.Empty(t, b.restore(t, s.ID).Skipped)
		require.Equal(t, want, picture(t, b.root))
	}
}

func TestCapture_cancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.variety(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := b.store.Begin(ctx, b.in(""))
	require.ErrorIs(t, err, context.Canceled)

	p, err := b.store.Begin(t.Context(), b.in(""))
	require.NoError(t, err)
	_, err = p.Finish(ctx)
	require.ErrorIs(t, err, context.Canceled)
	p.Discard()
	_, err = p.Finish(t.Context())
	require.Error(t, err, "what it had read is gone")
	require.NotEmpty(t, b.capture(t, "").ID, "the next one reads it again")
}

// A restore is stopped at every request and, by way of the context, in between;
// then it is run again.
func TestRestore_afterInterruptedRestore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.variety(t)
	want := picture(t, b.root)

	apart(b.store)
	id := b.capture(t, "").ID

	spoil := func() {
		require.NoError(t, os.RemoveAll(filepath.Join(b.root, "dir")))
		b.put(t, "dir", "a file now")
		b.put(t, "large", "changed")
		b.put(t, "void/extra/file", "y")
		require.NoError(t, os.Remove(filepath.Join(b.root, "small")))
	}
	for at := 1; ; at++ {
		spoil()

		spoiled := picture(t, b.root)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		b.store = b.fresh(t, &gate{Objects: b.objects, before: func(context.Context, string) error {
			if n++; n == at {
				cancel()
				return ctx.Err()
			}

			return nil
		}})
		_, err := b.store.Restore(ctx, RestoreIn{SnapshotID: id, Root: b.root, UID: b.uid(), GID: b.uid()})

		cancel()

		if err == nil {
			require.Greater(t, at, 4, "head, part, pack, chunk")
			break
		}

		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, spoiled, picture(t, b.root), "nothing is touched before everything is here")
		require.Empty(t, b.restore(t, id).Skipped)
		require.Equal(t, want, picture(t, b.root))
	}

	b.restart(t)
	// In the middle of the changes: after any of the steps, with files half written.
	for steps := range 7 {
		spoil()
		b.put(t, restoringPrefix+"left", "half")
		b.put(t, "void/"+restoringPrefix+"left", "half")
		target, err := b.store.load(t.Context(), id)
		require.NoError(t, err)

		r, done := b.prepared(t, target)
		for _, step := range []func() error{
			r.openDirs, r.removeLeftovers, r.deletions,
			r.directories, r.files, r.modes, r.dirModes,
		}[:steps] {
			require.NoError(t, step())
		}

		done()
		require.Empty(t, b.restore(t, id).Skipped)
		require.Equal(t, want, picture(t, b.root), "after %d steps", steps)
	}
}

// prepared returns a restore that has everything and has changed nothing.
func (b *bench) prepared(t *testing.T, target *tree) (r *restorer, done func()) {
	root, err := beneath.OpenRoot(b.root)
	require.NoError(t, err)
	w, err := b.store.survey(t.Context(), root, nil, target)
	require.NoError(t, err)

	r = &restorer{ctx: t.Context(), root: root, uid: -1, gid: -1, workers: 2, target: target, local: local{}}
	if os.Geteuid() == 0 {
		r.uid, r.gid = testUID, testUID
	}

	r.compare(w)

	waiting := &spool.File{Dir: t.TempDir()}

	var need []*manifest.Entry

	for _, e := range r.write {
		if e.Kind == manifest.File {
			need = append(need, e)
		}
	}

	from := source{store: b.store, id: "x", tree: target}
	r.contents, err = from.fetch(t.Context(), need, r.local, waiting)
	require.NoError(t, err)

	return r, func() {
		waiting.Close()

		_ = os.NewFile(uintptr(root), "root").Close()
	}
}

func TestRestore_damageIsReportedAndNothingChanges(t *testing.T) {
	t.Parallel()

	t.Run("chunk, head", func(t *testing.T) {
		t.Parallel()
		restoreDamaged(t, newBench(t), map[string][]string{"/chunks/": {"large"}, "/manifests/": {""}})
	})
	t.Run("pack, chunk, part, head", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		apart(b.store)
		restoreDamaged(t, b, map[string][]string{
			"/packs/": {"small", "other"}, "/chunks/": {"large"}, "/parts/": {""}, "/manifests/": {""},
		})
	})
}

func restoreDamaged(t *testing.T, b *bench, objects map[string][]string) {
	t.Helper()
	b.variety(t)

	id := b.capture(t, "").ID
	for _, p := range []string{"small", "dir", "large"} {
		require.NoError(t, os.RemoveAll(filepath.Join(b.root, p)))
	}

	before := picture(t, b.root)
	changed := func(data []byte) ([]byte, error) {
		data = append([]byte(nil), data...)
		data[len(data)/2] ^= 0x40

		return data, nil
	}
	short := func(data []byte) ([]byte, error) { return data[:len(data)-1], nil }
	// Well-formed, but not what it was.
	forged := func(data []byte) ([]byte, error) {
		raw, err := format.Decompress(data)
		if err != nil {
			return nil, err
		}

		raw[len(raw)/2] ^= 0x40

		return format.Compress(raw), nil
	}

	lost := func([]byte) ([]byte, error) {
		return nil, domain.Newf(domain.NotFound, "object_not_found", "the object does not exist")
	}
	for where, names := range objects {
		for what, do := range map[string]func([]byte) ([]byte, error){"changed": changed, "short": short, "forged": forged, "lost": lost} {
			if what == "forged" && (where == "/packs/" || where == "/manifests/") {
				continue // of a pack only a range is read, whose length is known; a head is not compressed
			}

			b.store = b.fresh(t, &gate{Objects: b.objects, after: func(key string, data []byte) ([]byte, error) {
				if strings.Contains(key, where) {
					return do(data)
				}

				return data, nil
			}})

			_, err := b.store.Restore(t.Context(), RestoreIn{SnapshotID: id, Root: b.root, UID: b.uid(), GID: b.uid()})
			if where == "/manifests/" && what == "lost" {
				code(t, CodeNotFound, err)
			} else {
				code(t, CodeDamaged, err)
			}

			named := false
			for _, name := range names {
				named = named || strings.Contains(err.Error(), name)
			}

			require.True(t, named, "%v", err)
			require.Equal(t, before, picture(t, b.root), "%s %s", where, what)

			// A capture does without the damaged one.
			if where == "/parts/" || where == "/manifests/" {
				s, err := b.store.Capture(t.Context(), b.in(id))
				require.NoError(t, err)
				require.Equal(t, s.Files, s.Added)
			}
		}
	}
}

func TestAForgedFrameIsNoticed(t *testing.T) {
	t.Parallel()

	content := []byte("content")
	e := &manifest.Entry{Path: "dir/name", Kind: manifest.File, Sum: sha256.Sum256(content)}
	s := source{id: "x"}
	at := location{Offset: 2, Length: uint32(len(content))}
	got, err := s.cutOut([]byte("..content"), at, e)
	require.NoError(t, err)
	require.Equal(t, content, got)

	for _, frame := range []string{"..contenT", "..conten", ".", ""} {
		_, err = s.cutOut([]byte(frame), at, e)
		code(t, CodeDamaged, err)
		require.Contains(t, err.Error(), "dir/name")
	}
}
