//go:build linux

package history_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/history"
)

// held lets a restore begin and waits before it goes on.
type held struct {
	history.Files
	begun atomic.Int32
	on    chan struct{}
}

func (h *held) Restore(ctx context.Context, in history.RestoreIn) (domain.RestoredFiles, error) {
	h.begun.Add(1)
	<-h.on
	return h.Files.Restore(ctx, in)
}

// Were a move carried out twice at a time, the second could still write files
// when the session goes on already.
func TestAMoveThatIsOnlySlowIsNotTakenUpTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	slow := &held{Files: w.desk.Files, on: make(chan struct{})}
	w.desk.Files = slow
	point := w.before(one.TurnID).ID
	over := make(chan error, 1)
	go func() {
		_, err := w.desk.Rewind(t.Context(), w.owner, w.session.ID, point)
		over <- err
	}()
	require.Eventually(t, func() bool { return slow.begun.Load() == 1 }, waitFor, tick)
	_, err := w.j.Pool.Exec(t.Context(), `UPDATE history_operations SET lease_until = now() - interval '1 second' WHERE session_id = $1`, w.session.ID)
	require.NoError(t, err)
	require.NoError(t, w.desk.Sweep(t.Context()))
	var held bool
	require.NoError(t, w.j.Pool.QueryRow(t.Context(), `SELECT lease_until > now() FROM history_operations WHERE session_id = $1`, w.session.ID).Scan(&held))
	require.True(t, held, "it is this process's again")
	close(slow.on)
	require.NoError(t, <-over)
	require.EqualValues(t, 1, slow.begun.Load())
	require.Equal(t, 1, w.log.moves())
	require.Empty(t, w.files())
}
