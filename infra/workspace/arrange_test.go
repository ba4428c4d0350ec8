//go:build linux

package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/domain"
)

func (w *Workspace) duplicate(t testing.TB, from, to string, overwrite bool) (Info, error) {
	t.Helper()
	return w.Copy(t.Context(), from, to, CopyOptions{Overwrite: overwrite})
}

func TestCopyFile(t *testing.T) {
	w := open(t)
	w.put(t, "d/a.tar.gz", "A")
	require.NoError(t, os.Chmod(filepath.Join(w.HostPath(), "d/a.tar.gz"), 0o750))
	w.put(t, ".profile", "P")

	for _, want := range []string{"d/a.tar copy.gz", "d/a.tar copy 2.gz", "d/a.tar copy 3.gz"} {
		info, err := w.duplicate(t, "d/a.tar.gz", "", true) // overwrite is for a named target
		require.NoError(t, err)
		require.Equal(t, want, info.Path)
		require.Equal(t, fs.FileMode(0o750), info.Mode)
		require.Equal(t, "A", w.get(t, want))

		if os.Getuid() == 0 {
			require.Equal(t, testUID, owner(t, filepath.Join(w.HostPath(), want)))
		}
	}

	info, err := w.duplicate(t, ".profile", "", false)
	require.NoError(t, err)
	require.Equal(t, ".profile copy", info.Path)

	w.put(t, "old", "old")
	_, err = w.duplicate(t, "d/a.tar.gz", "old", false)
	code(t, CodeExists, err)
	info, err = w.duplicate(t, "d/a.tar.gz", "old", true)
	require.NoError(t, err)
	require.True(t, info.Replaced)
	require.Equal(t, "A", w.get(t, "old"))

	for to, want := range map[string]string{
		"d": CodeExists, ".": CodeExists, "../x": domain.CodePathOutside, "d/a.tar.gz": CodeExists, "new/": CodeIsDirectory,
		"old/x": CodeNotDirectory,
	} {
		_, err = w.duplicate(t, "d/a.tar.gz", to, false)
		code(t, want, err)
	}

	_, err = w.duplicate(t, "d/a.tar.gz", "d", true)
	require.Error(t, err)
	_, err = w.duplicate(t, "none", "", false)
	code(t, domain.CodeFileNotFound, err)
	_, err = w.duplicate(t, "", "x", false)
	code(t, CodeIsDirectory, err)
	require.Empty(t, hidden(t, w))
}

func TestCopyDirectory(t *testing.T) {
	w := open(t)
	host := w.HostPath()
	w.put(t, "src/sub/x", "x")
	w.put(t, "src/run.sh", "#!/bin/sh")
	require.NoError(t, os.Chmod(host+"/src/run.sh", 0o755))
	require.NoError(t, os.Chmod(host+"/src/sub", 0o510))
	require.NoError(t, w.Symlink("sub/x", "src/in"))
	require.NoError(t, w.Symlink("/etc/passwd", "src/out"))
	require.NoError(t, unix.Mkfifo(host+"/src/pipe", 0o600))
	info, err := w.duplicate(t, "src", "", false)
	require.NoError(t, err)
	require.Equal(t, "src copy", info.Path)

	var got []string

	require.NoError(t, w.Walk(t.Context(), "src copy", func(i Info) error {
		got = append(got, i.Path+" "+i.Mode.String()+" "+i.Target)
		return nil
	}))
	require.Equal(t, []string{
		"src copy -rwxr-xr-x ", "src copy/in -rwxrwxrwx sub/x", "src copy/out -rwxrwxrwx /etc/passwd", "src copy/run.sh -rwxr-xr-x ",
		"src copy/sub -r-x--x--- ", "src copy/sub/x -rw-r--r-- ",
	}, got)

	_, err = w.duplicate(t, "src", "src/sub/deeper", false)
	code(t, CodeBadPath, err)
	_, err = w.duplicate(t, "src/sub", "src", true)
	code(t, CodeExists, err)
	w.put(t, "dst/gone", "gone")
	_, err = w.duplicate(t, "src", "dst", false)
	code(t, CodeExists, err)
	info, err = w.duplicate(t, "src", "dst", true)
	require.NoError(t, err)
	require.True(t, info.Replaced)

	_, err = w.Stat("dst/gone")
	code(t, domain.CodeFileNotFound, err)
	w.put(t, "file", "f")
	_, err = w.duplicate(t, "src", "file", true)
	code(t, CodeNotDirectory, err)
	require.Equal(t, "f", w.get(t, "file"))

	// A read-only directory can be copied, one without an end not.
	w.put(t, "locked/x", "x")
	require.NoError(t, os.Chmod(host+"/locked", 0o550))
	info, err = w.duplicate(t, "locked", "", false)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o550), info.Mode)
	w.put(t, "deep/"+strings.Repeat("d/", maxCopyDepth+1)+"x", "x")
	_, err = w.duplicate(t, "deep", "", false)
	code(t, CodeBadPath, err)

	// Into itself by another name for it: what is being made is not copied along.
	require.NoError(t, w.Symlink("src", "alias"))
	_, err = w.duplicate(t, "alias", "src/again", false)
	require.NoError(t, err)
	require.Equal(t, "x", w.get(t, "src/again/sub/x"))
	_, err = w.Stat("src/again/again")
	code(t, domain.CodeFileNotFound, err)
	require.Empty(t, hidden(t, w))
}

func TestCopy_tooLargeOrInterrupted(t *testing.T) {
	w := open(t)
	w.put(t, "src/a", strings.Repeat("a", 1000))
	w.put(t, "src/b", strings.Repeat("b", 100_000))

	for _, from := range []string{"src", "src/b"} {
		w.room(t, 50_000).Close()
		_, err := w.Copy(t.Context(), from, "dst", CopyOptions{})
		code(t, CodeNoSpace, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err = w.Copy(ctx, from, "dst", CopyOptions{})
		require.ErrorIs(t, err, context.Canceled)
		_, err = w.Stat("dst")
		code(t, domain.CodeFileNotFound, err)
	}

	require.Empty(t, hidden(t, w))
}

// A directory is swapped for a link to the outside while it is copied.
func TestCopyNeverFollowsOutside(t *testing.T) {
	w := open(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/x", []byte("OUTSIDE"), 0o644))
	w.put(t, "src/swap/x", "inside")
	require.NoError(t, w.Symlink(outside, "out"))
	_, err := w.duplicate(t, "out", "", false)
	code(t, domain.CodePathOutside, err)
	_, err = w.duplicate(t, "src", "out/copy", false)
	code(t, domain.CodePathOutside, err)

	host := w.HostPath()
	stop := make(chan struct{})

	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}

			_ = os.Rename(host+"/src/swap", host+"/aside")
			_ = os.Symlink(outside, host+"/src/swap")
			_ = os.Remove(host + "/src/swap")
			_ = os.Rename(host+"/aside", host+"/src/swap")
		}
	})

	for range 200 {
		if _, err := w.duplicate(t, "src", "dst", true); err != nil {
			continue
		}

		_ = w.Walk(t.Context(), "dst", func(i Info) error {
			if i.Type == File {
				require.Equal(t, "inside", w.get(t, i.Path))
			}

			return nil
		})
	}

	close(stop)
	swapper.Wait()

	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestLinkTo(t *testing.T) {
	w := open(t)
	w.put(t, "dir/f", "f")
	at, err := w.LinkTo("dir/f", ".share/a/b", "name")
	require.NoError(t, err)
	require.Equal(t, ".share/a/b/name", at)
	require.Equal(t, "f", w.get(t, at))
	target, err := os.Readlink(filepath.Join(w.HostPath(), at))
	require.NoError(t, err)
	require.Equal(t, "../../../dir/f", target)

	_, err = w.LinkTo("dir/f", ".share/a/b", "name")
	code(t, CodeExists, err)
	_, err = w.LinkTo("none", ".share", "x")
	code(t, domain.CodeFileNotFound, err)
	require.NoError(t, w.Symlink("/etc", "etc"))
	_, err = w.LinkTo("etc/passwd", ".share", "x")
	code(t, domain.CodePathOutside, err)
	_, err = w.LinkTo("etc", ".share", "x")
	code(t, domain.CodePathOutside, err)
	require.NoError(t, w.Symlink("../dir", ".share/l"))
	_, err = w.LinkTo("dir/f", ".share/l", "x")
	code(t, CodeNotDirectory, err)
	require.NoError(t, w.Symlink("/etc", ".share/away"))
	_, err = w.LinkTo("dir/f", ".share/away", "x")
	code(t, domain.CodePathOutside, err)
}

func TestStaysBelow(t *testing.T) {
	for _, ok := range [][2]string{{"l", "x"}, {"l", "./x/y"}, {"a/l", "../x"}, {"a/b/l", "../../x"}, {"a/l", ".."}} {
		require.True(t, StaysBelow(ok[0], ok[1]), ok)
	}

	for _, not := range [][2]string{{"l", ".."}, {"l", "/x"}, {
		"l",
		"",
	}, {"l", "../x"}, {"a/l", "../../x"}, {"a/l", "b/../../x"}, {"l", "x/../.."}} {
		require.False(t, StaysBelow(not[0], not[1]), not)
	}
}

func TestResolve(t *testing.T) {
	w := open(t)
	w.put(t, "real/sub/f", "f")
	require.NoError(t, w.Symlink("real", "l1"))
	require.NoError(t, w.Symlink("l1/sub", "l2"))
	require.NoError(t, w.Symlink("/etc", "etc"))

	for in, want := range map[string]string{"l2/f": "real/sub/f", "l1": "real", ".": ".", "real/../l2": "real/sub"} {
		got, err := w.Resolve(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	_, err := w.Resolve("etc/passwd")
	code(t, domain.CodePathOutside, err)
}
