//go:build linux

package snapshots

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A place far into a large file is reached without what lies before it.
func TestView_Open_seeks(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	const size = 6*chunkSize + 4321

	content := make([]byte, size) // of chunks: zeros, data, zeros, zeros, data, data, data

	source := rand.NewChaCha8([32]byte{3})
	for _, part := range [][2]int64{{chunkSize, 2 * chunkSize}, {4 * chunkSize, size}} {
		_, _ = source.Read(content[part[0]:part[1]])
	}

	b.put(t, "large", string(content))
	b.put(t, "small", "0123456789")
	id := b.capture(t, "").ID

	var fetched atomic.Int32

	b.store.objects = &gate{Objects: b.objects, before: func(_ context.Context, key string) error {
		if strings.Contains(key, "/chunks/") {
			fetched.Add(1)
		}

		return nil
	}}
	file, info, err := b.store.Open(t.Context(), id, "large")
	require.NoError(t, err)

	defer file.Close()

	require.EqualValues(t, size, info.Size)

	buffer := make([]byte, 1000)

	for _, at := range []int64{
		size - 1000, 0, chunkSize - 500, chunkSize, 2*chunkSize - 10, 2 * chunkSize, 3*chunkSize + 7, 4*chunkSize - 1,
		5*chunkSize - 999, 6*chunkSize - 1, 6 * chunkSize,
	} {
		got, err := file.Seek(at, io.SeekStart)
		require.NoError(t, err)
		require.Equal(t, at, got)

		before := fetched.Load()
		_, err = io.ReadFull(file, buffer)
		require.NoError(t, err)
		require.True(t, string(buffer) == string(content[at:at+1000]), "at %d", at)
		require.LessOrEqual(t, fetched.Load()-before, int32(2), "at %d", at)
	}

	end, err := file.Seek(-4, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, size-4, end)

	rest, err := io.ReadAll(file)
	require.NoError(t, err)
	require.Equal(t, content[size-4:], rest)
	_, err = file.Seek(size+10, io.SeekStart)
	require.NoError(t, err)
	_, err = file.Read(buffer)
	require.ErrorIs(t, err, io.EOF)
	_, err = file.Seek(-1, io.SeekStart)
	require.Error(t, err)
	_, err = file.Seek(0, io.SeekStart)
	require.NoError(t, err)
	all, err := io.ReadAll(file)
	require.NoError(t, err)
	require.True(t, string(all) == string(content))

	small, _, err := b.store.Open(t.Context(), id, "small")
	require.NoError(t, err)

	defer small.Close()

	_, err = small.Seek(7, io.SeekStart)
	require.NoError(t, err)
	rest, err = io.ReadAll(small)
	require.NoError(t, err)
	require.Equal(t, "789", string(rest))
}

// A directory is refused for what it holds before all of it is in memory.
func TestCapture_ofAMillionFilesHoldsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a million files")
	}

	b := newBench(t)

	var room unix.Statfs_t
	if unix.Access("/dev/shm", unix.W_OK) == nil && unix.Statfs("/dev/shm", &room) == nil &&
		room.Ffree > 1_100_000 { // seconds, not minutes
		root, err := os.MkdirTemp("/dev/shm", "everloop-million-")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })

		b.root = root
	}

	dir := filepath.Join(b.root, "many")
	require.NoError(t, os.Mkdir(dir, 0o755))

	var all sync.WaitGroup

	workers := runtime.NumCPU()
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < 1_000_000; i += workers {
				if err := unix.Mknod(filepath.Join(dir, strconv.Itoa(i)), unix.S_IFREG|0o644, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}

	all.Wait()

	b.store.most = 10_000

	var before, after runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&before)

	_, err := b.store.Capture(t.Context(), b.in(""))
	code(t, CodeTooMany, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20), "bytes that were allocated")
}

// Few entries with long paths hold as much as many.
func TestCapture_boundsPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 10)
	for i := range 10 {
		b.put(t, deep+strconv.Itoa(i), "x")
	}

	b.store.most = 100
	_, err := b.store.Capture(t.Context(), b.in(""))
	code(t, CodeTooMany, err)

	b.store.most = 200
	b.capture(t, "")
}
