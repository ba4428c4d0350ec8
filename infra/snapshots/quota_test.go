//go:build linux

package snapshots

import (
	"context"
	"crypto/rand"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/snapshots/spool"
	"everloop/internal/diskspace"
)

// A restore asks for what it adds before it fetches or touches anything.
func TestStore_Restore_asksForItsSpace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	content := make([]byte, 3<<20)

	_, _ = rand.Read(content)
	for _, name := range []string{"a", "b", "dir/c"} {
		b.put(t, name, string(content))
	}

	full := b.capture(t, "")
	require.NoError(t, os.RemoveAll(b.root+"/a"))
	require.NoError(t, os.RemoveAll(b.root+"/dir"))
	b.put(t, "b", "short")
	b.put(t, "gone/d", string(content))
	sparse, err := os.Create(b.root + "/sparse")
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<30), "it takes nothing, so that its removal frees nothing")
	require.NoError(t, sparse.Close())
	b.own(t, b.root+"/sparse")

	var asked diskspace.Usage

	refusal := domain.Newf(domain.TooLarge, spool.CodeNoSpace, "there is no room")
	in := RestoreIn{SnapshotID: full.ID, Root: b.root, UID: b.uid(), GID: b.uid()}
	in.Fits = func(_ context.Context, grows diskspace.Usage) error {
		asked = grows
		return refusal
	}
	before, err := diskspace.Measure(t.Context(), b.root, diskspace.Usage{})
	require.NoError(t, err)
	_, err = b.store.Restore(t.Context(), in)
	require.ErrorIs(t, err, refusal)
	after, err := diskspace.Measure(t.Context(), b.root, diskspace.Usage{})
	require.NoError(t, err)
	require.Equal(t, before, after, "nothing was touched")
	require.FileExists(t, b.root+"/gone/d")

	// What was asked for is what it then takes, within some blocks.
	in.Fits = func(_ context.Context, grows diskspace.Usage) error { return nil }
	_, err = b.store.Restore(t.Context(), in)
	require.NoError(t, err)
	after, err = diskspace.Measure(t.Context(), b.root, diskspace.Usage{})
	require.NoError(t, err)

	took := after.Minus(before)
	require.EqualValues(t, took.Inodes, asked.Inodes)
	require.InDelta(t, took.Bytes, asked.Bytes, 64<<10)
	require.Greater(t, asked.Bytes, int64(5<<20))

	in.Fits = func(_ context.Context, grows diskspace.Usage) error {
		require.Zero(t, grows, "nothing is to be done")
		return nil
	}
	_, err = b.store.Restore(t.Context(), in)
	require.NoError(t, err)
}

func TestStore_Begin_leavesTheReserveOfTheDisk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "file", "content")
	s := New(Config{Objects: b.objects, SpoolDir: spoolDir(t), Reserve: diskspace.Reserve{Bytes: 1 << 60}})
	_, err := s.Capture(t.Context(), b.in(""))
	require.True(t, domain.HasCode(err, domain.CodeDiskFull), "%v", err)
}
