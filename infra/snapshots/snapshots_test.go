//go:build linux

package snapshots

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestRestore_everything(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "main.go", "package main")
	b.put(t, "bin/run", "#!/bin/sh")
	require.NoError(t, os.Chmod(filepath.Join(b.root, "bin/run"), 0o750))
	b.put(t, ".git/HEAD", "ref: refs/heads/main")
	b.put(t, "vendor/lib/.git/config", "[core]")
	b.put(t, "empty", "")
	b.put(t, "odd \xff\xfe name\n", "bytes")
	b.put(t, "größe/日本", "unicode")
	b.mkdir(t, "void/deep")
	require.NoError(t, os.Chmod(filepath.Join(b.root, "void"), 0o500))
	b.link(t, "bin/run", "inside")
	b.link(t, "/etc/passwd", "outside")
	b.link(t, "nowhere\xff", "dangling")

	old := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	require.NoError(t, os.Chtimes(filepath.Join(b.root, "main.go"), old, old))
	want := picture(t, b.root)

	first := b.capture(t, "")
	require.Equal(t, 10, first.Files)
	require.Equal(t, 10, first.Added)
	require.Zero(t, first.Changed+first.Deleted+first.Skipped)

	require.NoError(t, os.RemoveAll(filepath.Join(b.root, ".git")))
	require.NoError(t, os.Chmod(filepath.Join(b.root, "void"), 0o700))
	require.NoError(t, os.RemoveAll(filepath.Join(b.root, "void")))
	require.NoError(t, os.Remove(filepath.Join(b.root, "outside")))
	b.put(t, "outside", "a file now")
	require.NoError(t, os.Remove(filepath.Join(b.root, "empty")))
	b.mkdir(t, "empty/no")
	b.put(t, "more/of/it", "x")
	b.put(t, "main.go", "package other")
	require.NoError(t, os.Chmod(filepath.Join(b.root, "bin/run"), 0o644))

	second := b.capture(t, first.ID)
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, []int{1, 2, 3}, []int{second.Added, second.Deleted, second.Changed})

	b.restart(t)
	done := b.restore(t, first.ID)
	require.Empty(t, done.Skipped)
	require.Equal(t, 1, done.Deleted)
	require.Equal(t, 5, done.Restored)
	require.Equal(t, want, picture(t, b.root))
	info, err := os.Stat(filepath.Join(b.root, "main.go"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(old))

	require.Equal(t, first.ID, b.capture(t, second.ID).ID, "the same files have the same id")
	require.Equal(t, Restored{}, b.restore(t, first.ID), "there is nothing left to do")
	require.NoError(t, os.Chmod(filepath.Join(b.root, "void"), 0o700)) // so that it can be cleared away
}

func TestCapture_unchanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "a/b", "x")
	first := b.capture(t, "")
	b.store.objects = broken{} // every access is an error from here on
	again := b.capture(t, first.ID)
	require.Equal(t, first.ID, again.ID)
	require.Equal(t, 1, again.Files)
	require.Zero(t, again.Added+again.Changed+again.Deleted)

	// Touched, and written again with the same content: still nothing new.
	b.put(t, "a/b", "x")
	require.NoError(t, os.Chtimes(filepath.Join(b.root, "a/b"), time.Now(), time.Now()))
	require.Equal(t, first.ID, b.capture(t, first.ID).ID)

	b.put(t, "a/b", "y")
	_, err := b.store.Capture(t.Context(), b.in(first.ID))
	require.ErrorIs(t, err, errBroken, "so the store would have been asked")
}

var errBroken = io.ErrClosedPipe

type broken struct{}

func (broken) Put(context.Context, string, []byte) error   { return errBroken }
func (broken) Get(context.Context, string) ([]byte, error) { return nil, errBroken }
func (broken) DeletePrefix(context.Context, string) error  { return errBroken }
func (broken) GetRange(context.Context, string, int64, int64) ([]byte, error) {
	return nil, errBroken
}

func TestCapture_unchangedFileIsNotRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "old", "content")
	b.age(t, "old")
	b.put(t, "new", "content")
	first := b.capture(t, "")

	for _, restarted := range []bool{false, true} {
		if restarted {
			b.restart(t)
			_, err := b.store.load(t.Context(), first.ID)
			require.NoError(t, err)
		}

		known := b.store.session(b.session).last()

		if restarted {
			_, sum, err := parseID(first.ID)
			require.NoError(t, err)

			known = b.store.session(b.session).remembered(sum)
		}

		require.True(t, known.at("old").Trusted)
		require.False(t, known.at("new").Trusted, "it was written a moment ago")
		// What is remembered is made wrong: who believes it did not look.
		known.at("old").Sum[0] ^= 1
		known.at("new").Sum[0] ^= 1
		p, err := b.store.Begin(t.Context(), b.in(first.ID))
		require.NoError(t, err)

		got := b.store.session(b.session).last()
		require.Equal(t, known.at("old").Sum, got.at("old").Sum)
		require.NotEqual(t, known.at("new").Sum, got.at("new").Sum)
		p.Discard()
	}
}

func TestViewAndDiff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "a.txt", "alpha")
	b.put(t, "dir/b.txt", "beta")
	b.put(t, "gone", "soon")
	b.link(t, "a.txt", "ln")

	big := strings.Repeat("0123456789abcdef", (chunkSize+smallLimit)/16) + "end"
	b.put(t, "big", big)
	first := b.capture(t, "")
	b.put(t, "a.txt", "ALPHA!")
	b.put(t, "dir/c.txt", "")
	require.NoError(t, os.Remove(filepath.Join(b.root, "gone")))
	require.NoError(t, os.Chmod(filepath.Join(b.root, "dir"), 0o700))
	second := b.capture(t, first.ID)

	b.restart(t)
	changes, err := b.store.Diff(t.Context(), first.ID, second.ID)
	require.NoError(t, err)
	require.Equal(t, []Change{
		{"a.txt", File, Modified, 6, File, 5},
		{"dir", Directory, Modified, 0, Directory, 0},
		{"dir/c.txt", File, Created, 0, "", 0},
		{"gone", File, Deleted, 0, File, 4},
	}, changes)
	changes, err = b.store.Diff(t.Context(), "", first.ID)
	require.NoError(t, err)
	require.Len(t, changes, 6)

	var paths []string

	require.NoError(t, b.store.Walk(t.Context(), first.ID, func(i Info) error {
		paths = append(paths, i.Path)
		if i.Type == Link {
			require.Equal(t, "a.txt", i.Target)
		}

		return nil
	}))
	require.Equal(t, []string{"a.txt", "big", "dir", "dir/b.txt", "gone", "ln"}, paths)

	for p, want := range map[string]string{"a.txt": "alpha", "dir/b.txt": "beta", "big": big} {
		r, info, err := b.store.Open(t.Context(), first.ID, p)
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.True(t, want == string(data), p)
		require.EqualValues(t, len(want), info.Size)
	}

	_, _, err = b.store.Open(t.Context(), first.ID, "dir")
	code(t, CodeNotRegular, err)
	_, _, err = b.store.Open(t.Context(), first.ID, "../x")
	code(t, domain.CodeFileNotFound, err)
	_, _, err = b.store.Open(t.Context(), string(b.session)+"."+strings.Repeat("0", 64), "x")
	code(t, CodeNotFound, err)

	for _, bad := range []string{
		"", "x", "../a." + strings.Repeat("0", 64), "a/b." + strings.Repeat("0", 64),
		string(b.session) + "." + strings.Repeat("A", 64),
	} {
		_, _, err = b.store.Open(t.Context(), bad, "x")
		code(t, CodeBadID, err)
	}
}

func TestRestore_serviceDirectoryStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "a", "1")
	b.put(t, ".everloop/tasks/t.log", "running")
	b.put(t, "sub/.everloop/mine", "a directory of the session's own")
	b.put(t, ".everloop-tmp-abc", "being written")
	first := b.capture(t, "")
	require.Equal(t, 2, first.Files)
	b.put(t, ".everloop/tasks/t.log", "running still")
	b.put(t, ".everloop/output/o.txt", "saved")
	b.put(t, "a", "2")
	require.Empty(t, b.restore(t, first.ID).Skipped)
	require.Equal(t, "1", b.get(t, "a"))
	require.Equal(t, "running still", b.get(t, ".everloop/tasks/t.log"))
	require.Equal(t, "saved", b.get(t, ".everloop/output/o.txt"))
	require.Equal(t, "being written", b.get(t, ".everloop-tmp-abc"))
}

func TestCapture_copiedSessionOwnsItsObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "a", "1")
	b.put(t, "b", "2")
	first := b.capture(t, "")

	other := &bench{store: b.store, objects: b.objects, session: "0190-other", root: t.TempDir()}
	done, err := b.store.Restore(
		t.Context(),
		RestoreIn{SnapshotID: first.ID, SessionID: other.session, Root: other.root, UID: b.uid(), GID: b.uid()},
	)
	require.NoError(t, err)
	require.Equal(t, 2, done.Restored)
	require.Equal(t, picture(t, b.root), picture(t, other.root))
	copied := other.capture(t, first.ID)
	require.NotEqual(t, first.ID, copied.ID)
	require.Zero(t, copied.Added+copied.Changed+copied.Deleted)

	require.NoError(t, b.store.DeleteSession(t.Context(), b.session))
	_, err = b.store.Diff(t.Context(), "", first.ID)
	code(t, CodeNotFound, err)
	other.restart(t)
	other.put(t, "a", "changed")
	require.Equal(t, 1, other.restore(t, copied.ID).Restored)
	require.Equal(t, "1", other.get(t, "a"))
	require.Error(t, b.store.DeleteSession(t.Context(), "a/../b"))
}

func TestContentsAreKeptOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	apart(b.store)

	content := strings.Repeat("the same ", 1000)
	for _, p := range []string{"a", "b", "c/d"} {
		b.put(t, p, content)
	}

	first := b.capture(t, "")
	counting := &gate{Objects: b.objects}
	b.store.objects = counting
	b.put(t, "e", content)
	require.NotEqual(t, first.ID, b.capture(t, first.ID).ID)

	for _, key := range counting.put {
		require.NotContains(t, key, "/packs/", "a known content is not stored again")
	}

	require.Len(t, counting.put, 2, "a part and a head")
	require.True(t, bytes.Contains([]byte(counting.put[1]), []byte("/manifests/")), "the head comes last")
}
