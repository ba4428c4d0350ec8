//go:build linux

package rmtree

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bench returns a directory, opened.
func bench(t *testing.T) (host string, dir int) {
	t.Helper()
	host = t.TempDir()
	fd, err := unix.Open(host, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })

	return host, fd
}

func entries(t *testing.T, host string) []string {
	t.Helper()

	list, err := os.ReadDir(host)
	require.NoError(t, err)

	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}

	return names
}

func TestRemove_wholeTreeOnly(t *testing.T) {
	t.Parallel()
	host, dir := bench(t)
	require.NoError(t, os.MkdirAll(host+"/tree/a/b", 0o755))
	require.NoError(t, os.Mkdir(host+"/kept", 0o755))

	for _, file := range []string{"tree/one", "tree/a/two", "tree/a/b/three", "kept/file"} {
		require.NoError(t, os.WriteFile(filepath.Join(host, file), nil, 0o600))
	}

	require.NoError(t, os.Symlink("../kept", host+"/tree/link"))
	require.NoError(t, os.Symlink("kept", host+"/link"))
	require.NoError(t, os.Chmod(host+"/tree/a/b", 0))
	require.NoError(t, os.Chmod(host+"/tree/a", 0o100))

	files, err := Remove(t.Context(), dir, "tree", ".moved-")
	require.NoError(t, err)
	require.Equal(t, 4, files, "three files and a link")
	files, err = Remove(t.Context(), dir, "link", ".moved-")
	require.NoError(t, err)
	require.Equal(t, 1, files)
	require.Equal(t, []string{"kept"}, entries(t, host))
	require.Equal(t, []string{"file"}, entries(t, host+"/kept"))
	_, err = Remove(t.Context(), dir, "none", ".moved-")
	require.ErrorIs(t, err, unix.ENOENT)
}

// A path has 4,096 characters at most; a command goes down one by one.
func TestRemoveGoesAnyDepth(t *testing.T) {
	t.Parallel()
	host, dir := bench(t)
	name := strings.Repeat("d", 200)
	at, err := unix.Openat(dir, ".", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)

	for range 5*maxDepth + 7 {
		require.NoError(t, unix.Mkdirat(at, name, 0o700))
		fd, err := unix.Openat(at, "x", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))

		below, err := unix.Openat(at, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = below
	}

	require.NoError(t, unix.Close(at))
	files, err := Remove(t.Context(), dir, name, ".moved-")
	require.NoError(t, err)
	require.Equal(t, 5*maxDepth+6, files)
	require.Equal(t, []string{"x"}, entries(t, host))
}

func TestRemoveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	host, dir := bench(t)
	require.NoError(t, os.MkdirAll(host+"/tree/a", 0o755))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := Remove(ctx, dir, "tree", ".moved-")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"tree"}, entries(t, host))
}

// A command may put a link instead of a directory at any moment.
func TestRemoveNeverLeavesTheTree(t *testing.T) {
	t.Parallel()
	host, dir := bench(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o600))

	stop := make(chan struct{})

	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.MkdirAll(host+"/tree/a", 0o755)
				_ = os.Remove(host + "/tree/a")
				_ = os.Symlink(outside, host+"/tree/a")
				_ = os.Remove(host + "/tree/a")
			}
		}
	})

	for range 300 {
		_, _ = Remove(t.Context(), dir, "tree", ".moved-")
	}

	close(stop)
	swapping.Wait()
	require.Equal(t, []string{"precious"}, entries(t, outside))
}
