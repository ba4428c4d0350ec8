//go:build linux

package snapshots

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCapture_specialFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "a", "1")
	require.NoError(t, unix.Mkfifo(filepath.Join(b.root, "pipe"), 0o666))
	b.own(t, filepath.Join(b.root, "pipe"))
	first := b.capture(t, "")
	require.Equal(t, 1, first.Files)
	require.Equal(t, 1, first.Skipped)
	b.put(t, "a", "2")
	require.NoError(t, unix.Mkfifo(filepath.Join(b.root, "later"), 0o666))
	done := b.restore(t, first.ID)
	require.Empty(t, done.Skipped)
	require.FileExists(t, filepath.Join(b.root, "pipe"), "it was there, so it stays")
	require.NoFileExists(t, filepath.Join(b.root, "later"))

	// Where a file was is a pipe now, and the other way round.
	require.NoError(t, os.Remove(filepath.Join(b.root, "a")))
	require.NoError(t, unix.Mkfifo(filepath.Join(b.root, "a"), 0o666))
	require.Equal(t, 1, b.restore(t, first.ID).Restored)
	require.Equal(t, "1", b.get(t, "a"))
}

// A link that takes the place of a directory must not lead a capture or restore
// outside.
func TestSwappedLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "file"), []byte("SECRET"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "keep"), []byte("KEEP"), 0o600))

	for i := range 50 {
		b.put(t, "dir/file", "inside")
		b.put(t, "dir/n"+strconv.Itoa(i), "x")
	}

	quiet := b.capture(t, "")

	stop := make(chan struct{})

	var writer sync.WaitGroup
	writer.Go(func() {
		dir, aside, link := filepath.Join(b.root, "dir"), filepath.Join(b.root, "aside"), filepath.Join(b.root, "link")
		_ = os.Symlink(outside, link)

		for {
			select {
			case <-stop:
				return
			default:
			}

			_ = os.Rename(dir, aside)
			_ = os.Rename(link, dir)
			_ = os.Rename(dir, link)
			_ = os.Rename(aside, dir)
		}
	})

	var ids []string

	for i := range 40 {
		in := b.in(quiet.ID)
		in.Busy = i%2 == 0

		b.restart(t)
		s, err := b.store.Capture(t.Context(), in)
		require.NoError(t, err)

		ids = append(ids, s.ID)
		done, err := b.store.Restore(t.Context(), RestoreIn{SnapshotID: quiet.ID, Root: b.root, UID: b.uid(), GID: b.uid()})
		require.NoError(t, err)

		for _, skipped := range done.Skipped {
			require.NotEmpty(t, skipped.Reason)
		}
	}

	close(stop)
	writer.Wait()

	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing was written or deleted outside")

	data, err := os.ReadFile(filepath.Join(outside, "file"))
	require.NoError(t, err)
	require.Equal(t, "SECRET", string(data))

	for _, id := range ids {
		v, err := b.store.View(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, v.Walk(func(i Info) error {
			if i.Type != File {
				return nil
			}

			r, _, err := v.Open(t.Context(), i.Path)
			require.NoError(t, err)
			data, err := io.ReadAll(r)
			require.NotContains(t, string(data), "SECRET")

			return err
		}))
	}

	_ = os.Remove(filepath.Join(b.root, "dir"))
	require.Empty(t, b.restore(t, quiet.ID).Skipped)
	require.Equal(t, "inside", b.get(t, "dir/file"))
}

func TestCapture_deepTrees(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "a", "1")
	first := b.capture(t, "")
	name := strings.Repeat("d", 200)
	dir, err := unix.Open(b.root, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)

	for range 100 {
		require.NoError(t, unix.Mkdirat(dir, name, 0o755))
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)

		_ = unix.Close(dir)
		dir = next
	}

	_ = unix.Close(dir)
	s, err := b.store.Capture(t.Context(), b.in(first.ID))
	require.NoError(t, err)
	require.False(t, s.Complete)
	require.Equal(t, 1, s.Skipped)
	require.Empty(t, b.restore(t, s.ID).Skipped)
	require.DirExists(t, filepath.Join(b.root, name))
	require.Empty(t, b.restore(t, first.ID).Skipped)
	left, err := os.ReadDir(b.root)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestRootOnlyRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the service must be root for files of others to be readable")
	}

	t.Parallel()
	b := newBench(t)
	b.put(t, "mine", "1")
	b.put(t, "linked", "2")
	require.NoError(t, os.Link(filepath.Join(b.root, "linked"), filepath.Join(b.root, "again")))
	require.NoError(t, os.Chmod(filepath.Join(b.root, "mine"), 0o4755|os.ModeSetuid))
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("of another user"), 0o600))

	if err := os.Link(secret, filepath.Join(b.root, "stolen")); err != nil {
		require.NoError(t, os.WriteFile(filepath.Join(b.root, "stolen"), []byte("of another user"), 0o600))
		require.NoError(t, os.Link(filepath.Join(b.root, "stolen"), filepath.Join(b.root, "stolen2")))
	}

	s, err := b.store.Capture(t.Context(), b.in(""))
	require.NoError(t, err)
	require.Equal(t, 3, s.Files)
	require.Equal(t, 1, s.Skipped)
	require.False(t, s.Complete)
	_, _, err = b.store.Open(t.Context(), s.ID, "stolen")
	require.Error(t, err)

	require.NoError(t, os.Remove(filepath.Join(b.root, "mine")))
	require.NoError(t, os.Chmod(filepath.Join(b.root, "linked"), 0o600))
	// A file that root left behind comes back as the session's.
	require.NoError(t, os.Lchown(filepath.Join(b.root, "again"), 0, 0))
	require.Empty(t, b.restore(t, s.ID).Skipped)
	require.NoError(t, os.Remove(filepath.Join(b.root, "stolen")))

	for p, shown := range picture(t, b.root) {
		require.NotContains(t, shown, "u", "%s: no setuid bit", p)
	}
}

func TestNamesThatAreHardToSay(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	for _, name := range []string{
		"-", "--help", "$(reboot)", "\x01\x02", "\x80", "con", "a\\b", "...", "*", "'",
		strings.Repeat("ü", 127), "\u202egnp.exe",
	} {
		b.put(t, name, name)
		b.put(t, "d/"+name, name)
	}

	want := picture(t, b.root)
	id := b.capture(t, "").ID
	b.clear(t)
	b.restart(t)
	require.Empty(t, b.restore(t, id).Skipped)
	require.Equal(t, want, picture(t, b.root))
}

func TestTooManyFiles(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	for i := range 11 {
		b.put(t, "d/"+strconv.Itoa(i), "x")
	}

	b.store.most = 11
	_, err := b.store.Capture(t.Context(), b.in(""))
	code(t, CodeTooMany, err)

	b.store.most = 12
	b.capture(t, "")
}

// The service is not root: what its own user took the rights from.
func TestCapture_unreadableDirectories(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may enter everything")
	}

	t.Parallel()
	b := newBench(t)
	b.put(t, "closed/in/file", "1")
	b.put(t, "plain", "1")
	closed := filepath.Join(b.root, "closed")

	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	require.NoError(t, os.Chmod(closed, 0o500))
	first := b.capture(t, "")

	require.NoError(t, os.Chmod(closed, 0o700))
	b.put(t, "closed/in/file", "2")
	b.put(t, "closed/more", "2")
	require.NoError(t, os.Chmod(filepath.Join(b.root, "plain"), 0))
	require.NoError(t, os.Chmod(closed, 0))
	s, err := b.store.Capture(t.Context(), b.in(first.ID))
	require.NoError(t, err)
	require.False(t, s.Complete)
	require.Equal(t, 2, s.Skipped)

	require.Empty(t, b.restore(t, s.ID).Skipped)

	info, err := os.Stat(closed)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm(), "what was not captured is left alone")

	require.Empty(t, b.restore(t, first.ID).Skipped)
	require.Equal(t, "1", b.get(t, "closed/in/file"))
	require.Equal(t, "1", b.get(t, "plain"))
	require.NoFileExists(t, filepath.Join(closed, "more"))
	info, err = os.Stat(closed)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o500), info.Mode().Perm())
}
