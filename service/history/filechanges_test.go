//go:build linux

package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/service/history"
)

func TestFileChanges_of_commands_and_moves_are_emitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("kept.txt", "kept")
	w.chat("first", w.writes("a.txt", "1"))
	two := w.chat("second", w.writes("a.txt", "2"), w.writes("dir/b.txt", "new"), func() {
		require.NoError(t, os.Remove(filepath.Join(w.root, "dir", "b.txt")))
	})
	w.requireChanges("created a.txt", "modified a.txt", "created dir/b.txt", "deleted dir/b.txt")

	w.write("by-user.txt", "x")
	w.rewind(two.TurnID)
	w.requireChanges("created by-user.txt", "modified a.txt", "deleted by-user.txt")
}

func TestFileChanges_of_many_paths_are_one_of_their_directory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := func(prefix string) act {
		return func() {
			for i := range 101 {
				w.write(fmt.Sprintf("%s/of/%d/file", prefix, i), "x")
			}
		}
	}

	w.chat("first", w.writes("a.txt", "1"))
	w.chat("second", many("tree"))
	w.requireChanges("created a.txt", "modified tree/of")
	w.chat("third", func() { many("one")(); many("two")() })
	w.requireChanges("modified .")
}

func TestFileChanges_of_Write_and_Edit_are_not_emitted_twice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"))
	w.requireChanges("created a.txt")
	w.tool, w.arguments = "Write", `{"file_path":"./dir/../b.txt","content":"x"}`
	w.chat("second", func() { w.write("b.txt", "x"); w.write("beside.txt", "y") })
	w.requireChanges("created beside.txt")
}

// slowFirst stores the first capture only when the second is stored.
type slowFirst struct {
	history.Files
	begun  atomic.Int32
	second chan struct{}
}

func (f *slowFirst) Begin(ctx context.Context, in history.CaptureIn) (history.Pending, error) {
	pending, err := f.Files.Begin(ctx, in)
	return slowPending{pending, f, f.begun.Add(1)}, err
}

type slowPending struct {
	history.Pending
	of *slowFirst
	n  int32
}

func (p slowPending) Finish(ctx context.Context) (domainhistory.Snapshot, error) {
	if p.n == 1 {
		<-p.of.second
	}

	snapshot, err := p.Pending.Finish(ctx)
	if p.n == 2 {
		close(p.of.second)
	}

	return snapshot, err
}

func TestFileChanges_of_a_capture_that_is_stored_late(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.service.Capturer.Config().Files = &slowFirst{Files: w.service.Capturer.Config().Files, second: make(chan struct{})}
	w.write("kept.txt", "kept")
	w.chat("first", w.writes("a.txt", "1"))
	w.requireChanges("created a.txt")
}

// requireChanges waits for changes that are emitted, in any order, and requires that
// there are no others since the last call.
func (w *world) requireChanges(want ...string) {
	w.t.Helper()

	var shown []string
	for _, change := range want {
		require.Eventually(w.t, func() bool {
			shown = w.fileChanges()
			return slices.Contains(shown, change)
		}, waitFor, tick, "%s is not among %v", change, shown)
	}

	require.ElementsMatch(w.t, want, shown)
	w.seenChanges += len(shown)
}

// fileChanges returns the changes emitted since the last requireChanges.
func (w *world) fileChanges() []string {
	w.t.Helper()
	require.NoError(w.t, w.j.Flush(w.t.Context()))

	var shown []string

	for _, e := range w.log.Events() {
		if e.Name == domain.EventFileChanged {
			var change domain.FileChange
			require.NoError(w.t, json.Unmarshal(e.Data, &change))
			shown = append(shown, change.Change+" "+change.Path)
		}
	}

	return shown[w.seenChanges:]
}
