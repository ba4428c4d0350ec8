//go:build linux

package history_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/snapshots"
)

// changes gives what differs from a checkpoint, in words.
func (w *world) changes(from string, to domain.CheckpointID) (list []string) {
	w.t.Helper()
	files, total, err := w.service.CheckpointChanges(w.t.Context(), w.session, domain.CheckpointID(from), to, 0, 100)
	require.NoError(w.t, err)
	require.Len(w.t, files, total)

	size := func(n *int64) string {
		if n == nil {
			return "none"
		}

		return fmt.Sprint(*n)
	}
	for _, f := range files {
		list = append(list, fmt.Sprintf("%s %s %s %s %s", f.Path, f.Change, f.Type, size(f.SizeBefore), size(f.SizeAfter)))
	}

	return list
}

// content reads a file as it was at a checkpoint.
func (w *world) content(checkpoint domain.CheckpointID, path string) (string, domain.FileInfo, error) {
	w.t.Helper()

	file, info, err := w.service.OpenFile(w.t.Context(), w.session.ID, checkpoint, path)
	if err != nil {
		return "", info, err
	}

	data, err := io.ReadAll(file)
	require.NoError(w.t, err)
	require.NoError(w.t, file.Close())

	return string(data), info, nil
}

func TestCheckpointChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"), w.writes("dir/b.txt", "22"), func() {
		require.NoError(t, os.Symlink("a.txt", filepath.Join(w.root, "link")))
	})
	two := w.chat("second", w.writes("a.txt", "changed"), func() { require.NoError(t, os.RemoveAll(filepath.Join(w.root, "dir"))) })
	first, second := w.before(one.TurnID).ID, w.before(two.TurnID).ID

	require.Equal(t, []string{"a.txt modified file 1 7", "dir/b.txt deleted file 2 none"}, w.changes(string(second), ""))
	require.Equal(t, []string{"a.txt created file none 7", "link created link none 0"}, w.changes(string(first), ""))

	w.write("by-user.txt", "mine") // over REST, after the last capture
	w.write("bytes", "\x00\xff")
	require.Equal(t, []string{
		"a.txt modified file 1 7", "by-user.txt created file none 4", "bytes created file none 2", "dir/b.txt deleted file 2 none",
	}, w.changes(string(second), ""))
	require.Equal(t, []string{"a.txt created file none 1", "dir/b.txt created file none 2", "link created link none 0"},
		w.changes(string(first), second))
	require.Equal(t, []string{"a.txt deleted file 1 none", "dir/b.txt deleted file 2 none", "link deleted link 0 none"},
		w.changes(string(second), first))
	require.Empty(t, w.changes(string(second), second))

	// The same by pages.
	page, total, err := w.service.CheckpointChanges(t.Context(), w.session, second, "", 1, 2)
	require.NoError(t, err)
	require.Equal(t, 4, total)
	require.Equal(t, []string{"by-user.txt", "bytes"}, []string{page[0].Path, page[1].Path})
	page, total, err = w.service.CheckpointChanges(t.Context(), w.session, second, "", 4, 2)
	require.NoError(t, err)
	require.Equal(t, 4, total)
	require.Empty(t, page)

	for _, pair := range [][2]domain.CheckpointID{{"none", ""}, {second, "none"}} {
		_, _, err = w.service.CheckpointChanges(t.Context(), w.session, pair[0], pair[1], 0, 1)
		require.True(t, domain.HasCode(err, "checkpoint_not_found"), "%v", err)
	}
	// The checkpoint of another session is none of this one.
	other, err := w.j.CreateSession(t.Context(), w.owner.ID, domain.NewSession{})
	require.NoError(t, err)
	_, _, err = w.service.CheckpointChanges(t.Context(), other, second, "", 0, 1)
	require.True(t, domain.HasCode(err, "checkpoint_not_found"), "%v", err)

	// What became a directory is gone as a file.
	require.NoError(t, os.Remove(filepath.Join(w.root, "a.txt")))
	w.write("a.txt/inner", "x")
	require.Contains(t, w.changes(string(second), ""), "a.txt deleted file 1 none")
	require.Contains(t, w.changes(string(second), ""), "a.txt/inner created file none 1")

	// A rewind to the checkpoint leaves no difference.
	w.rewind(two.TurnID)
	require.Empty(t, w.changes(string(second), ""))
}

func TestOpenFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("dir/a.txt", "old"), w.writes("bytes", "\x00\xff\x80"), func() {
		require.NoError(t, os.Symlink("../dir/a.txt", filepath.Join(w.root, "dir/inside")))
		require.NoError(t, os.Symlink("../../etc", filepath.Join(w.root, "out")))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(w.root, "absolute")))
	})
	two := w.chat("second", w.writes("dir/a.txt", "changed"), func() { require.NoError(t, os.Remove(filepath.Join(w.root, "bytes"))) })
	point := w.before(two.TurnID).ID

	for path, want := range map[string]string{
		"dir/a.txt": "old", "./dir/../dir/a.txt": "old", "/workspace/dir/a.txt": "old", "dir/inside": "old", "bytes": "\x00\xff\x80",
	} {
		got, info, err := w.content(point, path)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
		require.EqualValues(t, len(want), info.Size)
		require.Equal(t, filepath.Base(path), info.Name)
		require.Regexp(t, `^"[0-9a-f]{64}"$`, info.ETag)
	}

	for path, want := range map[string]string{
		"none": "file_not_found", "dir": "is_a_directory", "": "is_a_directory", "dir/a.txt/x": "not_a_directory",
		"../x": domain.CodePathOutside, "dir/../../x": domain.CodePathOutside, "/etc/passwd": domain.CodePathOutside,
		"out/passwd": domain.CodePathOutside, "absolute": domain.CodePathOutside, "a\x00b": "invalid_path",
		".everloop-tmp-x": "invalid_path",
	} {
		_, _, err := w.content(point, path)
		require.True(t, domain.HasCode(err, want), "%q: want %s, got %v", path, want, err)
	}

	_, _, err := w.content("none", "dir/a.txt")
	require.True(t, domain.HasCode(err, "checkpoint_not_found"), "%v", err)

	other, err := w.j.CreateSession(t.Context(), w.owner.ID, domain.NewSession{})
	require.NoError(t, err)
	_, _, err = w.service.OpenFile(t.Context(), other.ID, point, "dir/a.txt")
	require.True(t, domain.HasCode(err, "checkpoint_not_found"), "%v", err)
}

func TestCheckpointFiles_gone(t *testing.T) {
	t.Parallel()

	for name, take := range map[string]func(*world){
		"never captured":             (*world).lose,
		"gone from the object store": (*world).deleteObjects,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.chat("first", w.writes("a.txt", "1"))
			two := w.chat("second")
			take(w)

			point := w.before(two.TurnID).ID
			_, _, err := w.service.CheckpointChanges(t.Context(), w.session, point, "", 0, 1)
			require.True(t, domain.HasCode(err, snapshots.CodeNotFound), "%v", err)
			require.Equal(t, domain.NotFound, domain.AsError(err).Kind)
			_, _, err = w.content(point, "a.txt")
			require.True(t, domain.HasCode(err, snapshots.CodeNotFound), "%v", err)
		})
	}
}

// deleteObjects removes the snapshots of the session, and all that this process knew
// of them.
func (w *world) deleteObjects() {
	w.t.Helper()
	require.NoError(w.t, w.service.Flush(w.t.Context(), w.session.ID))
	require.NoError(w.t, w.store.DeletePrefix(w.t.Context(), "snapshots/"+string(w.session.ID)+"/"))
	w.service = w.process(w.store)
}
