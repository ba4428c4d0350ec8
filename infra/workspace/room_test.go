//go:build linux

package workspace

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// room gives a room of n bytes, whatever the workspace holds.
func (w *Workspace) room(t *testing.T, n int64) *Room {
	t.Helper()
	used, err := w.measure(t.Context())
	require.NoError(t, err)
	r, err := w.Room(t.Context(), used+n)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func TestWritersShareTheRoom(t *testing.T) {
	w := open(t)
	w.put(t, "old", strings.Repeat("x", 8192))
	first := w.room(t, 1000)
	second, err := w.Room(t.Context(), first.limit)
	require.NoError(t, err)
	require.True(t, first.Take(600))
	require.False(t, second.Take(600), "they are the first one's")
	require.EqualValues(t, 400, second.left())
	require.True(t, second.Take(400))
	require.False(t, first.Take(1))
	first.give(100)
	require.True(t, second.Take(100))
	second.Close()
	require.EqualValues(t, 500, first.left())

	// What is written stays taken; what is deleted is room again once it is measured.
	w.put(t, "new", "1")
	require.False(t, first.Take(500))
	require.NoError(t, w.Remove(t.Context(), "new", false))
	require.NoError(t, w.Remove(t.Context(), "old", false))
	third, err := w.Room(t.Context(), first.limit)
	require.NoError(t, err)
	defer third.Close()
	require.Greater(t, third.left(), int64(8192))
	require.LessOrEqual(t, third.left(), first.limit-500)

	other, err := w.store.Open(t.Context(), "another", testUID)
	require.NoError(t, err)
	defer other.Close()
	r, err := other.Room(t.Context(), 1<<20)
	require.NoError(t, err)
	defer r.Close()
	require.True(t, r.Take(1<<19), "a workspace is nobody else's")

	var unbounded *Room
	require.True(t, unbounded.Take(1<<62))
	unbounded.Close()
}

func TestNoMoreIsTakenThanThereIs(t *testing.T) {
	w := open(t)
	limit := w.room(t, 100_000).limit
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			r, err := w.Room(t.Context(), limit)
			if err != nil {
				t.Error(err)
				return
			}
			for range 1000 {
				if r.Take(70) {
					taken.Add(70)
				}
			}
			w.forget() // the next is measured beside the others
			t.Cleanup(r.Close)
		})
	}
	all.Wait()
	require.LessOrEqual(t, taken.Load(), int64(100_000))
	require.Greater(t, taken.Load(), int64(100_000-70))
}

// The memory of sizes is only a cache, but it forgets nobody who writes.
func TestRoomOutlivesTheCache(t *testing.T) {
	w := open(t)
	r := w.room(t, 1000)
	require.True(t, r.Take(1000))
	u := &w.store.usage
	u.mu.Lock()
	for i := range maxMeasured + 10 {
		u.of(string(rune(i)) + "/elsewhere")
	}
	require.LessOrEqual(t, len(u.known), maxMeasured)
	u.mu.Unlock()
	again, err := w.Room(t.Context(), r.limit)
	require.NoError(t, err)
	defer again.Close()
	require.False(t, again.Take(1))
}
