//go:build linux

package snapshots

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
)

// outsider returns a directory that no capture or restore may reach.
func outsider(t *testing.T) (dir string, check func()) {
	dir = t.TempDir()
	for _, name := range []string{"file", "extra", "mode"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("SECRET"), 0o600))
	}

	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))

	return dir, func() {
		t.Helper()

		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, left, 4)

		for _, e := range left {
			info, err := e.Info()
			require.NoError(t, err)

			if e.IsDir() {
				require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
				continue
			}

			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			require.Equal(t, "SECRET", string(data))
		}
	}
}

// swap puts a link where something was.
func (b *bench) swap(t *testing.T, p, target string) {
	require.NoError(t, os.Rename(filepath.Join(b.root, p), filepath.Join(b.root, "aside-of-"+filepath.Base(p))))
	require.NoError(t, os.Symlink(target, filepath.Join(b.root, p)))
}

func TestCapture_swappedForLink(t *testing.T) {
	t.Parallel()
	outside, check := outsider(t)
	b := newBench(t)
	b.put(t, "dir/sub/file", "inside")
	root, err := beneath.OpenRoot(b.root)
	require.NoError(t, err)

	defer func() { _ = unix.Close(root) }()

	w := &walker{ctx: t.Context(), root: root, most: 1000}
	_, err = w.scan("dir/sub")
	require.NoError(t, err)
	b.swap(t, "dir", outside)

	_, err = w.scan("dir")
	require.True(t, beneath.Vanished(err), "%v", err)
	_, err = w.scan("dir/sub")
	require.True(t, beneath.Vanished(err), "%v", err)
	require.True(t, w.stirred(&scanned{path: "dir"}))

	// The same with a file: between the look at it and its opening.
	at, err := unix.Open(b.root, unix.O_PATH, 0)
	require.NoError(t, err)

	defer func() { _ = unix.Close(at) }()

	b.put(t, "plain", "inside")
	b.swap(t, "plain", filepath.Join(outside, "file"))

	_, _, err = beneath.OpenFile(at, "plain", false)
	require.ErrorIs(t, err, beneath.ErrNotRegular)
	require.NoError(t, os.Remove(filepath.Join(b.root, "plain")))
	require.NoError(t, unix.Mkfifo(filepath.Join(b.root, "plain"), 0o600))

	_, _, err = beneath.OpenFile(at, "plain", false)
	require.ErrorIs(t, err, beneath.ErrNotRegular)
	_, err = beneath.ReadLink(at, "plain")
	require.True(t, beneath.Vanished(err), "it was a link a moment ago")
	check()
}

func TestRestore_swappedForLink(t *testing.T) {
	t.Parallel()
	outside, check := outsider(t)
	b := newBench(t)
	b.put(t, "dir/file", "inside")
	b.put(t, "dir/mode", "inside")
	b.put(t, "dir/sub/file", "inside")
	b.put(t, "other/mode", "inside")
	b.mkdir(t, "last")
	id := b.capture(t, "").ID
	want := picture(t, b.root)
	b.put(t, "dir/file", "changed")
	b.put(t, "dir/extra", "new")
	require.NoError(t, os.Chmod(filepath.Join(b.root, "dir/mode"), 0o666))
	require.NoError(t, os.Chmod(filepath.Join(b.root, "other/mode"), 0o666))
	require.NoError(t, os.RemoveAll(filepath.Join(b.root, "dir/sub")))
	require.NoError(t, os.Chmod(filepath.Join(b.root, "last"), 0o777))

	target, err := b.store.load(t.Context(), id)
	require.NoError(t, err)
	r, done := b.prepared(t, target)
	b.swap(t, "dir", outside)
	b.swap(t, "last", filepath.Join(outside, "sub"))
	require.NoError(t, os.Remove(filepath.Join(b.root, "other/mode")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "mode"), filepath.Join(b.root, "other/mode")))
	require.NoError(t, r.apply())
	done()
	check()

	var skipped []string
	for _, s := range r.done.Skipped {
		skipped = append(skipped, s.Path)
		require.NotEmpty(t, s.Reason)
	}

	require.Equal(t, []string{"dir/extra", "dir/file", "dir/mode", "dir/sub", "dir/sub/file", "last", "other/mode"}, skipped)

	require.Empty(t, b.restore(t, id).Skipped)
	require.Equal(t, want, picture(t, b.root))
	check()
}

func TestRestore_modesOfHardLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "a", "x")
	id := b.capture(t, "").ID

	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Link(filepath.Join(b.root, "a"), elsewhere); err != nil {
		t.Skipf("no links between these directories: %v", err)
	}

	require.NoError(t, os.Chmod(elsewhere, 0o600))
	require.Equal(t, 1, b.restore(t, id).Restored)

	info, err := os.Stat(elsewhere)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(b.root, "a"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
	require.WithinDuration(t, time.Now(), info.ModTime(), time.Hour)
}
