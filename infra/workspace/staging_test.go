//go:build linux

package workspace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/internal/diskspace"
)

func TestStaging_otherProcesses(t *testing.T) {
	w := open(t)
	s, err := w.Stage(t.Context(), nil)
	require.NoError(t, err)
	n, err := s.Add(t.Context(), strings.NewReader("content"), 100)
	require.NoError(t, err)
	list, err := w.List(t.Context(), "", MaxListed)
	require.NoError(t, err)
	require.Empty(t, list)

	visited := 0

	require.NoError(t, w.Walk(t.Context(), "", func(Info) error { visited++; return nil }))
	require.Equal(t, 1, visited)

	entries, err := os.ReadDir(w.HostPath())
	require.NoError(t, err)
	require.Empty(t, entries, "no command meets it")

	info, err := s.Place(t.Context(), n, "a/b", WriteOptions{Parents: true})
	require.NoError(t, err)
	require.Equal(t, "a/b", info.Path)
	require.False(t, info.Replaced)
	require.Equal(t, "content", w.get(t, "a/b"))
	_, err = s.Place(t.Context(), n, "a/c", WriteOptions{})
	require.Error(t, err, "it has a name already")
	require.NoError(t, s.Close())
	require.Empty(t, hidden(t, w))
}

func TestStagingKeepsToItsBounds(t *testing.T) {
	w := open(t)
	s, err := w.Stage(t.Context(), w.room(t, 1000+3*diskspace.PerInode))
	require.NoError(t, err)

	defer s.Close()

	_, err = s.Add(t.Context(), strings.NewReader(strings.Repeat("x", 101)), 100)
	code(t, CodeTooLarge, err)
	_, err = s.Add(t.Context(), strings.NewReader(strings.Repeat("x", 1001+2*diskspace.PerInode)), 2000)
	code(t, CodeNoSpace, err)
	// The space of what was not kept is free again.
	_, err = s.Add(t.Context(), strings.NewReader(strings.Repeat("x", 900)), 2000)
	require.NoError(t, err)
	_, err = s.Add(t.Context(), strings.NewReader(strings.Repeat("x", 400)), 2000)
	code(t, CodeNoSpace, err)
	_, err = s.Add(t.Context(), strings.NewReader(strings.Repeat("x", 90)), 90)
	require.NoError(t, err)

	broken := errors.New("the line is dead")
	_, err = s.Add(t.Context(), io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 100)

	var source *SourceError
	require.ErrorAs(t, err, &source)
	require.ErrorIs(t, err, broken)
	files, err := os.ReadDir(filepath.Join(w.store.root, stagingDir, s.name))
	require.NoError(t, err)
	require.Len(t, files, 2, "the two that were kept")
}

// What a process that was killed has left is taken away by a later upload, a day
// after; what is younger may still be in use.
func TestStaging_staleFilesAreRemoved(t *testing.T) {
	w := open(t)
	dead, err := w.Stage(t.Context(), nil)
	require.NoError(t, err)
	_, err = dead.Add(t.Context(), strings.NewReader("x"), 100)
	require.NoError(t, err)
	alive, err := w.Stage(t.Context(), nil)
	require.NoError(t, err)

	defer alive.Close()

	require.Len(t, hidden(t, w), 2)

	removeStale(t.Context(), alive.holder, time.Now().Add(-time.Hour))
	require.Len(t, hidden(t, w), 2)
	removeStale(t.Context(), alive.holder, time.Now().Add(time.Minute))
	require.Empty(t, hidden(t, w))
}

// small gives a workspace on a disk of its own of one megabyte.
func small(t *testing.T) *Workspace {
	t.Helper()

	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no disk can be mounted here: %v", err)
	}

	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	w, err := New(filepath.Join(dir, "workspace")).Open(t.Context(), "s", testUID)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })

	return w
}

func TestFullDisk(t *testing.T) {
	w := small(t)
	large := strings.Repeat("x", 700_000)

	w.put(t, "kept", "before")
	before := w.put(t, "half", large)
	_, err := w.WriteFile(t.Context(), "kept", strings.NewReader(large), WriteOptions{IfMatch: ""})
	code(t, CodeNoSpace, err)
	require.Equal(t, "before", w.get(t, "kept"))
	_, err = w.WriteFile(t.Context(), "half", strings.NewReader(large), WriteOptions{IfMatch: before.ETag()})
	code(t, CodeNoSpace, err)
	_, err = w.Copy(t.Context(), "half", "", CopyOptions{})
	code(t, CodeNoSpace, err)
	require.NoError(t, w.MkdirAll("dir"))
	require.NoError(t, w.Rename("half", "dir/half", false))
	_, err = w.Copy(t.Context(), "dir", "", CopyOptions{})
	code(t, CodeNoSpace, err)
	s, err := w.Stage(t.Context(), nil)
	require.NoError(t, err)
	_, err = s.Add(t.Context(), strings.NewReader(large), 1<<30)
	code(t, CodeNoSpace, err)
	n, err := s.Add(t.Context(), strings.NewReader("small"), 1<<30)
	require.NoError(t, err, "what was not kept takes no space")
	_, err = s.Place(t.Context(), n, "small", WriteOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Empty(t, hidden(t, w))
	list, err := w.List(t.Context(), "", MaxListed)
	require.NoError(t, err)
	require.Equal(t, []string{"dir", "kept", "small"}, names(list))
}
