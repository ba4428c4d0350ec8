//go:build linux

package snapshots

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is built of contents is what a capture of the same files would be.
func TestBuilder_makesWhatACaptureMakes(t *testing.T) {
	t.Parallel()

	large := make([]byte, 20<<20)
	for i := range 9 << 20 {
		large[i] = byte(rand.Uint32())
	}

	contents := map[string][]byte{"small": []byte("hello\n"), "large": large}

	dir := t.TempDir()
	for _, sub := range []string{"deep/er", "hollow", ".everloop"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}

	var entries []BuildEntry

	file := func(path, content string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), contents[content], mode))
		require.NoError(t, os.Chmod(filepath.Join(dir, path), mode))
		entries = append(entries, BuildEntry{
			Path: path, Type: File, Mode: mode, Size: int64(len(contents[content])), Content: content,
		})
	}
	file("deep/er/large", "large", 0o644)
	file("deep/er/again", "large", 0o600)
	file("a.sh", "small", 0o755)
	file("deep/copy", "small", 0o644)
	file("empty", "none", 0o644)
	require.NoError(t, os.Symlink("deep/copy", filepath.Join(dir, "link")))

	entries = append(entries,
		BuildEntry{Path: "link", Type: Link, Target: "deep/copy"},
		BuildEntry{Path: "hollow", Type: Directory},
		BuildEntry{Path: ".everloop/log", Type: File, Size: 6, Content: "small"},
	)

	store := newBench(t).objects
	opened := map[string]int{}
	builder, err := New(Config{Objects: store, SpoolDir: t.TempDir()}).NewBuilder("built", func(name string) (io.ReadCloser, error) {
		opened[name]++
		return io.NopCloser(bytes.NewReader(contents[name])), nil
	})
	require.NoError(t, err)
	one, err := builder.Build(t.Context(), entries)
	require.NoError(t, err)
	two, err := builder.Build(t.Context(), entries[2:])
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	require.Equal(t, map[string]int{"small": 1, "large": 1}, opened, "each content is read once")

	captured, err := New(Config{Objects: store, SpoolDir: t.TempDir()}).
		Capture(t.Context(), CaptureIn{SessionID: "captured", Root: dir})
	require.NoError(t, err)

	sum := func(id string) string { return id[strings.IndexByte(id, '.'):] }
	require.Equal(t, sum(captured.ID), sum(one))

	target := t.TempDir()
	_, err = New(Config{Objects: store, SpoolDir: t.TempDir()}).Restore(t.Context(), RestoreIn{
		SnapshotID: one, SessionID: "built", Root: target,
	})
	require.NoError(t, err)

	for _, path := range []string{"deep/er/large", "deep/er/again"} {
		data, err := os.ReadFile(filepath.Join(target, path))
		require.NoError(t, err)
		require.True(t, bytes.Equal(large, data), path)
	}
}

func TestBuilder_contentThatCannotBeRead(t *testing.T) {
	t.Parallel()
	store := newBench(t).objects
	gone := errors.New("gone")
	builder, err := New(Config{Objects: store, SpoolDir: t.TempDir()}).NewBuilder("built", func(string) (io.ReadCloser, error) {
		return nil, gone
	})
	require.NoError(t, err)
	_, err = builder.Build(t.Context(), []BuildEntry{{Path: "a", Type: File, Size: 1, Content: "x"}})
	require.ErrorIs(t, err, gone)
}
