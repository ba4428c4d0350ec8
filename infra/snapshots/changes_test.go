//go:build linux

package snapshots

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func (b *bench) changes(t testing.TB, id string) []Change {
	t.Helper()
	changes, err := b.store.Changes(t.Context(), ChangesIn{SnapshotID: id, SessionID: b.session, Root: b.root, UID: b.uid()})
	require.NoError(t, err)

	return changes
}

func TestChanges(t *testing.T) {
	t.Parallel()

	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put(t, "same", "1")
			b.put(t, "dir/longer", "1")
			b.put(t, "dir/other", "12345")
			b.put(t, "gone/deep/x", "123")
			b.put(t, "mode", "1")
			b.put(t, "becomes-dir", "1")
			b.put(t, "bytes", "\x00\x01")
			b.link(t, "same", "link")
			b.link(t, "same", "link-gone")
			b.put(t, ".everloop/tasks/log", "the service's own")
			id := b.capture(t, "").ID
			require.Empty(t, b.changes(t, id))

			b.put(t, "dir/longer", "12")
			b.put(t, "dir/other", "54321")
			b.put(t, "bytes", "\x00\x02")
			require.NoError(t, os.RemoveAll(filepath.Join(b.root, "gone")))
			require.NoError(t, os.Chmod(filepath.Join(b.root, "mode"), 0o600))
			require.NoError(t, os.Remove(filepath.Join(b.root, "becomes-dir")))
			b.put(t, "becomes-dir/new", "")
			require.NoError(t, os.Remove(filepath.Join(b.root, "link")))
			b.link(t, "dir", "link")
			require.NoError(t, os.Remove(filepath.Join(b.root, "link-gone")))
			b.put(t, ".everloop/tasks/log", "goes on")

			before := picture(t, b.root)

			if restarted {
				b.restart(t)
			}

			got := b.changes(t, id)
			require.Equal(t, []Change{
				{"becomes-dir", Directory, Modified, 0, File, 1},
				{"becomes-dir/new", File, Created, 0, "", 0},
				{"bytes", File, Modified, 2, File, 2},
				{"dir/longer", File, Modified, 2, File, 1},
				{"dir/other", File, Modified, 5, File, 5},
				{"gone", Directory, Deleted, 0, Directory, 0},
				{"gone/deep", Directory, Deleted, 0, Directory, 0},
				{"gone/deep/x", File, Deleted, 0, File, 3},
				{"link", Link, Modified, 0, Link, 0},
				{"link-gone", Link, Deleted, 0, Link, 0},
				{"mode", File, Modified, 1, File, 1},
			}, got)
			require.Equal(t, before, picture(t, b.root), "nothing is changed")

			// A capture of the same state sees the same.
			diff, err := b.store.Diff(t.Context(), id, b.capture(t, id).ID)
			require.NoError(t, err)
			require.Equal(t, diff, got)
			require.Equal(t, got, b.changes(t, id), "what was captured is not read again")
		})
	}
}

func TestChanges_readsOnlyWhatMayDiffer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "untouched", "1")
	b.put(t, "longer", "1")
	b.age(t, "longer")
	id := b.capture(t, "").ID
	b.put(t, "longer", "12")
	b.capture(t, id)
	b.put(t, "new", "1")

	// A wrong memory of a file that was not touched is believed: its content is not read.
	b.store.session(b.session).last().at("untouched").Sum[0] ^= 1
	require.Equal(t, []Change{
		{"longer", File, Modified, 2, File, 1}, {"new", File, Created, 1, "", 0}, {"untouched", File, Modified, 1, File, 1},
	}, b.changes(t, id))

	_, err := b.store.Changes(t.Context(), ChangesIn{SnapshotID: id, SessionID: "a/../b", Root: b.root})
	code(t, CodeBadID, err)
	_, err = b.store.Changes(t.Context(), ChangesIn{
		SnapshotID: string(b.session) + "." + strings.Repeat("0", 64), SessionID: b.session, Root: b.root,
	})
	code(t, CodeNotFound, err)

	b.store.most = 2
	_, err = b.store.Changes(t.Context(), ChangesIn{SnapshotID: id, SessionID: b.session, Root: b.root, UID: b.uid()})
	code(t, CodeTooMany, err)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "dir/sub/a.txt", "here")

	for name, target := range map[string]string{
		"to-file": "dir/sub/a.txt", "to-dir": "dir/sub/", "dir/up": "../dir/sub", "twice": "to-dir", "out": "../x", "dir/far": "../../etc",
		"absolute": "/workspace/dir", "loop": "loop", "nowhere": "gone", "round": "dir/../dir/sub/./a.txt",
	} {
		b.link(t, target, name)
	}

	view, err := b.store.View(t.Context(), b.capture(t, "").ID)
	require.NoError(t, err)

	for p, want := range map[string]string{
		".": ".", "dir/sub/a.txt": "dir/sub/a.txt", "to-file": "dir/sub/a.txt", "to-dir/a.txt": "dir/sub/a.txt",
		"dir/up/a.txt": "dir/sub/a.txt", "twice/a.txt": "dir/sub/a.txt", "round": "dir/sub/a.txt", "twice": "dir/sub",
	} {
		got, err := view.Follow(p)
		require.NoError(t, err, p)
		require.Equal(t, want, got, p)
	}

	for p, want := range map[string]string{
		"none": domain.CodeFileNotFound, "nowhere": domain.CodeFileNotFound, "dir/sub/a.txt/x": CodeNotDirectory,
		"to-file/x": CodeNotDirectory, "out": domain.CodePathOutside, "dir/far/passwd": domain.CodePathOutside,
		"absolute/sub": domain.CodePathOutside, "../x": domain.CodePathOutside, "loop": CodeNotRegular,
	} {
		_, err := view.Follow(p)
		code(t, want, err)
	}
}
