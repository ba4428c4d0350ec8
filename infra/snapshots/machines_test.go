//go:build linux

package snapshots

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/internal/sharedfs"
	"everloop/internal/sharedfs/sharedfstest"
)

// The walk asks the server for every attribute where the client may have cached it.
func TestWalk_asksForFreshAttributes(t *testing.T) {
	b := newBench(t)
	b.put(t, "dir/f", "content")

	var looks, fresh atomic.Int64

	defer sharedfs.Simulate(sharedfs.Simulation{CachesAttributes: true, Looked: func(_ string, flags int) {
		looks.Add(1)

		if flags&unix.AT_STATX_FORCE_SYNC != 0 {
			fresh.Add(1)
		}
	}})()

	b.capture(t, "")
	require.Positive(t, looks.Load())
	require.Equal(t, looks.Load(), fresh.Load())
}

// unread is an object store for tests that never load what they capture.
type unread struct{ Objects }

func (unread) Put(context.Context, string, []byte) error { return nil }

// A worker captures what another machine has changed since its last capture, although
// its own client keeps attributes, names and pages for ten minutes.
func TestStore_Capture_seesChangesAcrossMachines(t *testing.T) {
	writer, worker := sharedfstest.Machines(t)
	store := New(Config{Objects: unread{}, SpoolDir: t.TempDir()})
	store.grain = 0
	capture := func() string {
		snapshot, err := store.Capture(t.Context(), CaptureIn{SessionID: "s", Root: worker})
		require.NoError(t, err)
		require.True(t, snapshot.Complete)

		return snapshot.ID
	}
	file := filepath.Join(writer, "f")
	first := ""

	for i, content := range []string{"one", "two", "six", "ten"} { // of equal size
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))

		at := time.Unix(1e9+int64(i), 0) // clocks of file systems tick slowly
		require.NoError(t, os.Chtimes(file, at, at))

		next := capture()
		require.NotEqual(t, first, next, content)
		first = next
	}

	replaced := filepath.Join(writer, "g")
	require.NoError(t, os.WriteFile(replaced, []byte("new"), 0o644))
	require.NoError(t, os.Rename(replaced, file))
	require.NotEqual(t, first, capture(), "another file of that name")
}
