//go:build linux

package history_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/service/history"
)

// held lets restores start and waits before the first one continues.
type held struct {
	history.Files
	begun chan struct{}
	on    chan struct{}
	once  sync.Once
}

func (h *held) Restore(ctx context.Context, in history.RestoreIn) (domainhistory.RestoredFiles, error) {
	first := false

	h.once.Do(func() { first = true })

	if first {
		close(h.begun)

		select {
		case <-h.on:
		case <-ctx.Done():
			return domainhistory.RestoredFiles{}, ctx.Err()
		}
	}

	return h.Files.Restore(ctx, in)
}

// claim claims a rewind to before a turn, without starting its workflow.
func (w *world) claim(turn domain.TurnID) domainhistory.Operation {
	w.t.Helper()
	claimed, err := w.service.ClaimHistory(w.t.Context(), w.owner.ID, domainhistory.Request{
		Kind: domain.OperationRewind, SessionID: w.session.ID, CheckpointID: w.before(turn).ID,
	})
	require.NoError(w.t, err)

	return *claimed.Operation
}

// hold makes an attempt at an operation that stands in its restore.
func (w *world) hold(op domainhistory.Operation) (slow *held, over chan error) {
	w.t.Helper()
	service := w.process(w.store)
	slow = &held{Files: service.Config().Files, begun: make(chan struct{}), on: make(chan struct{})}
	service.Config().Files, w.runs.service = slow, w.service
	over = make(chan error, 1)

	go func() {
		_, err := service.Move(w.t.Context(), op.ID)
		over <- err
	}()

	<-slow.begun

	return slow, over
}

func TestMove_attemptThatWasReplacedWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	op := w.claim(one.TurnID)
	slow, over := w.hold(op)

	state, err := w.service.Move(t.Context(), op.ID)
	require.NoError(t, err)
	require.Equal(t, domainhistory.StateDone, state)
	require.ErrorIs(t, <-over, domain.ErrFenced, "the first attempt ends without being released")
	close(slow.on)
	require.NoError(t, w.j.Flush(t.Context()))
	require.Equal(t, 1, w.log.moves())
	require.Empty(t, w.files())

	state, err = w.service.Move(t.Context(), op.ID)
	require.NoError(t, err)
	require.Equal(t, domainhistory.StateDone, state, "repeated, it changes nothing")
	require.NoError(t, w.j.Flush(t.Context()))
	require.Equal(t, 1, w.log.moves())
}

func TestFinishHistory_fencesEarlierAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	op := w.claim(one.TurnID)
	first, err := w.service.AttemptHistory(t.Context(), op.ID)
	require.NoError(t, err)
	second, err := w.service.AttemptHistory(t.Context(), op.ID)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, []int{first.Attempt, second.Attempt})
	require.ErrorIs(t, w.service.CheckHistory(t.Context(), first), domain.ErrFenced)
	require.NoError(t, w.service.CheckHistory(t.Context(), second))
	_, err = w.service.FinishHistory(t.Context(), first, domainhistory.RestoredFiles{})
	require.ErrorIs(t, err, domain.ErrFenced)
	require.ErrorIs(t, w.service.AbortHistory(t.Context(), first, domain.AsError(err)), domain.ErrFenced)
	require.Zero(t, w.log.moves())
	_, err = w.service.FinishHistory(t.Context(), second, domainhistory.RestoredFiles{})
	require.NoError(t, err)
	require.ErrorIs(t, w.service.CheckHistory(t.Context(), second), domain.ErrFenced, "it is over")
}

func TestRewind_thatTakesLongIsFinishedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	slow := &held{Files: w.service.Config().Files, begun: make(chan struct{}), on: make(chan struct{})}
	w.service.Config().Files, w.service.Config().Wait = slow, 50*time.Millisecond
	_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, w.before(one.TurnID).ID)
	require.True(t, domain.HasCode(err, "history_pending"), "%v", err)
	_, err = w.service.Rewind(t.Context(), w.owner, w.session.ID, w.before(one.TurnID).ID)
	require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%v", err)
	close(slow.on)
	require.Eventually(t, func() bool { return w.log.moves() == 1 }, waitFor, tick)
	require.Empty(t, w.files())
}

func TestRewind_startedLaterWhenTemporalIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	w.runs.set(true)

	over := make(chan error, 1)

	point := w.before(one.TurnID).ID
	go func() {
		_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, point)
		over <- err
	}()

	require.Eventually(t, func() bool {
		tag, err := w.j.Pool.Exec(t.Context(), `UPDATE history_operations SET created_at = now() - interval '1 minute'
			WHERE session_id = $1`, w.session.ID)

		return err == nil && tag.RowsAffected() == 1
	}, waitFor, tick)
	require.Error(t, w.startLost())
	w.runs.set(false)
	require.NoError(t, w.startLost())
	require.NoError(t, <-over, "the caller still gets the result")
	require.Empty(t, w.files())
}

func TestAbort_leavesTheSessionAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	op := w.claim(one.TurnID)
	_, over := w.hold(op)
	state, err := w.service.Abort(t.Context(), op.ID, "its run was cancelled")
	require.NoError(t, err)
	require.Equal(t, domainhistory.StateFailed, state)
	require.ErrorIs(t, <-over, domain.ErrFenced)
	require.Equal(t, "1", w.files()["a.txt"])
	require.Zero(t, w.log.moves())
	_, done, err := w.service.HistoryResult(t.Context(), op.ID)
	require.True(t, done)
	require.True(t, domain.HasCode(err, "history_not_changed"), "%v", err)
	w.chat("second", w.writes("a.txt", "2"))
}

// A repair that looked at the oldest operations only would never come to a lost one
// behind many that take long.
func TestLostHistory_pagesThroughAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	op := w.claim(one.TurnID)
	_, err := w.j.Pool.Exec(t.Context(), `
		WITH many AS (
			INSERT INTO sessions (id, owner_id, sandbox_uid, active_branch_id)
			SELECT 's' || n, owner_id, 900000 + n, 'b' || n FROM sessions, generate_series(1, 120) n WHERE id = $1 RETURNING id),
		branched AS (INSERT INTO branches (id, session_id, lineage, reason) SELECT 'b' || substr(id, 2), id, '[]', 'root' FROM many
		    RETURNING id, session_id)
		INSERT INTO history_operations (id, session_id, kind, caller_id, left_id, branch_id, created_at)
		SELECT '0' || session_id, session_id, 'switch_branch', 'x', $2, id, now() - interval '1 hour'
		    FROM branched`, w.session.ID, op.LeftID)
	require.NoError(t, err)
	_, err = w.j.Pool.Exec(t.Context(), `UPDATE history_operations SET created_at = now() - interval '1 minute' WHERE id = $1`, op.ID)
	require.NoError(t, err)

	seen := 0

	for after := ""; ; {
		page, err := w.service.LostHistory(t.Context(), time.Second, after, 100)
		require.NoError(t, err)

		if len(page) == 0 {
			break
		}

		require.LessOrEqual(t, len(page), 100)
		seen += len(page)
		after = page[len(page)-1].ID
	}

	require.Equal(t, 121, seen)
}
