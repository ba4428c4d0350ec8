//go:build linux

package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/sharedfs"
)

// hidden lists what the service itself has left, in the workspace or next to it.
func hidden(t testing.TB, w *Workspace) (out []string) {
	t.Helper()

	for _, dir := range []string{w.HostPath(), filepath.Join(w.store.root, stagingDir)} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)

		for _, e := range entries {
			if dir != w.HostPath() || strings.HasPrefix(e.Name(), tempPrefix) {
				out = append(out, e.Name())
			}
		}
	}

	return out
}

// Users and tools count one file up, each only over the version that it read: as
// many as were let through are in the number at the end.
func TestUsersAndToolsLoseNoWrite(t *testing.T) {
	w := open(t)
	// A second store is a second process: it shares no mutex with the first.
	other, err := New(w.store.root).Open(t.Context(), "0190-session", testUID)
	require.NoError(t, err)
	w.put(t, "count", "0")

	var done, refused atomic.Int64
	for round := 0; round < 20 && refused.Load() == 0; round++ {
		count(t, w, other, &done, &refused)
	}

	require.Equal(t, fmt.Sprint(done.Load()), w.get(t, "count"))
	require.Positive(t, refused.Load(), "they never met")
	require.Empty(t, hidden(t, w))
}

// count has eight writers count one file up, over two stores.
func count(t *testing.T, w, other *Workspace, done, refused *atomic.Int64) {
	var wg sync.WaitGroup

	for i := range 8 {
		at := w
		if i%2 == 1 {
			at = other
		}

		wg.Go(func() {
			for range 50 {
				data, info, err := at.ReadFile("count", 100)
				if err != nil {
					t.Error(err)
					return
				}

				var n int

				_, _ = fmt.Sscan(string(data), &n)

				_, err = at.WriteFile(context.Background(), "count", strings.NewReader(fmt.Sprint(n+1)), WriteOptions{IfMatch: info.ETag()})
				switch {
				case err == nil:
					done.Add(1)
				case domain.HasCode(err, CodeStale):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}

	wg.Wait()
}

// A command replaces the file by one of its own, as editors do, at any moment of
// a conditional write: what it wrote is never lost to one that was let through.
func TestWriteFile_concurrentCommand(t *testing.T) {
	w := open(t)
	file := filepath.Join(w.HostPath(), "f")
	// Else a file that comes between the second look and the rename is replaced: see
	// replaceIf.
	atomically := exchanges(t, w)
	for round := range 400 {
		base := w.put(t, "f", "base")
		started := make(chan struct{})

		var wg sync.WaitGroup
		wg.Go(func() { // the command
			<-started

			if err := os.WriteFile(file+".new", []byte("command"), 0o644); err != nil {
				t.Error(err)
			}

			if err := os.Rename(file+".new", file); err != nil {
				t.Error(err)
			}
		})
		close(started)

		_, err := w.WriteFile(t.Context(), "f", strings.NewReader("user"), WriteOptions{IfMatch: base.ETag()})

		wg.Wait()
		// Let through: the command came after it and replaced it knowingly, for it
		// asks for no version. Refused: the command's is there.
		if err != nil {
			code(t, CodeStale, err)
		}

		if got := w.get(t, "f"); err == nil && !atomically {
			require.Contains(t, []string{"command", "user"}, got, "round %d", round)
		} else {
			require.Equal(t, "command", got, "round %d", round)
		}
	}

	require.Empty(t, hidden(t, w))
}

// exchanges reports whether names can be exchanged in one step on the file system that
// the tests run on.
func exchanges(t *testing.T, w *Workspace) bool {
	w.put(t, "one", "")
	w.put(t, "other", "")
	root := int(w.root.Fd())

	err := sharedfs.Exchange(root, "one", root, "other")
	if err != nil {
		require.ErrorIs(t, err, sharedfs.ErrUnsupported)
	}

	require.NoError(t, w.Remove(t.Context(), "one", false))
	require.NoError(t, w.Remove(t.Context(), "other", false))

	return err == nil
}

// swap alone, with what a command can do between the look and the exchange.
func TestSwap_unexpectedFile(t *testing.T) {
	w := open(t)
	root := int(w.root.Fd())
	prepare := func() Info {
		old := w.put(t, "f", "old")
		require.NoError(t, os.WriteFile(filepath.Join(w.HostPath(), "temp"), []byte("ours"), 0o644))

		return old
	}
	old := prepare()
	require.NoError(t, w.swap(root, "temp", root, "f", old))
	require.Equal(t, "ours", w.get(t, "f"))
	require.NoFileExists(t, filepath.Join(w.HostPath(), "temp"))

	old = prepare()

	require.NoError(t, os.WriteFile(filepath.Join(w.HostPath(), "f"), []byte("changed in place"), 0o644))
	require.ErrorIs(t, w.swap(root, "temp", root, "f", old), errStale)
	require.Equal(t, "changed in place", w.get(t, "f"))
	require.Equal(t, "ours", w.get(t, "temp"))

	old = prepare()

	require.NoError(t, os.Remove(filepath.Join(w.HostPath(), "f")))
	require.NoError(t, os.MkdirAll(filepath.Join(w.HostPath(), "f/dir"), 0o755))
	require.ErrorIs(t, w.swap(root, "temp", root, "f", old), errStale)
	require.DirExists(t, filepath.Join(w.HostPath(), "f/dir"))
	require.NoError(t, os.RemoveAll(filepath.Join(w.HostPath(), "f")))

	old = prepare()

	require.NoError(t, os.Remove(filepath.Join(w.HostPath(), "f")))
	require.ErrorIs(t, w.swap(root, "temp", root, "f", old), errStale)
	require.NoFileExists(t, filepath.Join(w.HostPath(), "f"))
}

func TestRemoveIf(t *testing.T) {
	w := open(t)
	first := w.put(t, "f", "1")
	second := w.put(t, "f", "2")
	code(t, CodeStale, w.RemoveIf(t.Context(), "f", first.ETag()))
	require.Equal(t, "2", w.get(t, "f"))
	require.NoError(t, w.RemoveIf(t.Context(), "f", second.ETag()))
	code(t, CodeStale, w.RemoveIf(t.Context(), "f", second.ETag()))
	require.NoError(t, w.MkdirAll("d"))
	code(t, CodeIsDirectory, w.RemoveIf(t.Context(), "d", second.ETag()))
	require.NoError(t, w.Symlink("/etc/passwd", "out"))
	code(t, CodeNotRegular, w.RemoveIf(t.Context(), "out", second.ETag()))

	// Of a write and a delete of the same version one wins.
	for range 100 {
		tag := w.put(t, "f", "base").ETag()

		var (
			won atomic.Int32
			wg  sync.WaitGroup
		)
		wg.Go(func() {
			if _, err := w.WriteFile(context.Background(), "f", strings.NewReader("x"), WriteOptions{IfMatch: tag}); err == nil {
				won.Add(1)
			}
		})
		wg.Go(func() {
			if w.RemoveIf(context.Background(), "f", tag) == nil {
				won.Add(1)
			}
		})
		wg.Wait()
		require.EqualValues(t, 1, won.Load())
	}
}

// Names that change places both ways must not make their locks wait for each
// other.
func TestMove_bothWays(t *testing.T) {
	w := open(t)
	w.put(t, "a", "x")

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_ = w.Rename("a", "b", true)
				_ = w.Rename("b", "a", true)
			}
		})
	}

	done := make(chan struct{})

	go func() { wg.Wait(); close(done) }()

	select {
	case <-done:
	case <-t.Context().Done():
		t.Fatal("they wait for each other")
	}

	list, err := w.List(t.Context(), "", MaxListed)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestWriteFile_namesOfTheService(t *testing.T) {
	w := open(t)
	for _, p := range []string{tempPrefix + "x", "a/" + tempPrefix + "x", "/workspace/" + tempPrefix + "x/y"} {
		_, err := w.WriteFile(t.Context(), p, strings.NewReader("x"), WriteOptions{Parents: true})
		code(t, CodeBadPath, err)
	}
}

// A file that leaves the workspace while its path is looked up, as a replaced one
// does, is there or gone: its path never led outside.
func TestReadFile_whileItIsReplaced_doesNotLeave(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "f", "one")
	inside, outside := filepath.Join(w.HostPath(), "f"), filepath.Join(w.store.root, "beside")

	over := make(chan struct{})

	var mover, readers sync.WaitGroup
	mover.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}

			if err := errors.Join(os.Rename(inside, outside), os.Rename(outside, inside)); err != nil {
				t.Error(err)
				return
			}
		}
	})

	for range 2 {
		readers.Go(func() {
			for range 3_000 {
				if _, _, err := w.ReadFile("f", 100); err != nil && !domain.HasCode(err, domain.CodeFileNotFound) {
					t.Error(err)
					return
				}
			}
		})
	}

	readers.Wait()
	close(over)
	mover.Wait()
}
