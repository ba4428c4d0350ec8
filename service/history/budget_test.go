//go:build linux

package history_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/snapshots"
	"everloop/infra/toolbox"
	"everloop/infra/workspace"
	"everloop/service/files"
	"everloop/service/history"
)

// counting counts what is put into an object store.
type counting struct {
	snapshots.Objects
	bytes atomic.Int64
}

// Put implements snapshots.Objects.
func (c *counting) Put(ctx context.Context, key string, data []byte) error {
	err := c.Objects.Put(ctx, key, data)
	if err == nil {
		c.bytes.Add(int64(len(data)))
	}

	return err
}

// Every turn writes new content: the object store keeps what the budget allows.
func TestCapturer_keepsToItsBudget(t *testing.T) {
	t.Parallel()

	const size = 1 << 20
	for name, budget := range map[string]history.Budget{
		"session": {Session: 5 * size / 2}, "owner": {Owner: 5 * size / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			store := &counting{Objects: w.store}
			w.service = w.process(store)
			w.service.Capturer.Config().Budget = budget

			var (
				turns  []domain.TurnID
				second string
			)

			for i := range 6 {
				content := make([]byte, size)

				_, _ = rand.Read(content)
				if i == 1 {
					second = string(content)
				}

				turns = append(turns, w.chat("again", w.writes("f", string(content))).TurnID)
				require.NoError(t, w.service.Flush(t.Context(), w.session.ID))
			}

			require.Less(t, store.bytes.Load(), int64(5*size/2))
			require.Greater(t, store.bytes.Load(), int64(2*size))
			session, owner, err := w.service.CheckpointBytes(t.Context(), w.session.ID)
			require.NoError(t, err)
			require.Equal(t, store.bytes.Load(), session, "what is kept is counted")
			require.Equal(t, session, owner)

			last := w.before(turns[5]).Files
			require.Nil(t, last.SnapshotID)
			require.False(t, last.Complete)

			var failure string
			require.NoError(t, w.j.Pool.QueryRow(t.Context(), `
				SELECT failure FROM checkpoints WHERE session_id = $1 AND state = 'failed' LIMIT 1`, w.session.ID).Scan(&failure))
			require.Contains(t, failure, "the files were not kept")

			// Where the files as they are fit, one can go back to what was kept.
			w.write("f", "small")
			moved := w.rewind(turns[2])
			require.Empty(t, moved.Files.Skipped)
			require.Equal(t, second, w.files()["f"])
		})
	}
}

// A rewind that would put more into a workspace than it may hold changes nothing.
func TestRewind_refusedByTheQuotaOfTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	w.chat("large", w.writes("f", string(content)))
	two := w.chat("small", w.writes("f", "small"))
	require.NoError(t, w.service.Flush(t.Context(), w.session.ID))

	limited := w.service.Config().Files.(files.Checkpoints)
	limited.Roots = toolbox.Files{Store: workspace.NewLimited(w.dir, workspace.Limits{Bytes: 2 << 20})}
	w.service.Config().Files = limited
	_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, w.before(two.TurnID).ID)
	require.True(t, domain.HasCode(err, workspace.CodeNoSpace), "%v", err)
	require.Equal(t, "small", w.files()["f"])
	require.Equal(t, []string{"large", "step", "done", "small", "step", "done"}, w.messages())

	// The session is not claimed any more, and a limit that fits lets it go back.
	limited.Roots = toolbox.Files{Store: workspace.NewLimited(w.dir, workspace.Limits{Bytes: 4 << 20})}
	w.service.Config().Files = limited
	require.Empty(t, w.rewind(two.TurnID).Files.Skipped)
	require.Equal(t, string(content), w.files()["f"])
}
