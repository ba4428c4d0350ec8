//go:build linux

package history_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/snapshots"
)

// lose forgets the files of every checkpoint of the session.
func (w *world) lose() {
	w.t.Helper()
	require.NoError(w.t, w.service.Flush(w.t.Context(), w.session.ID))
	_, err := w.j.Pool.Exec(w.t.Context(), `UPDATE checkpoints SET state = 'failed', snapshot_id = NULL
		WHERE session_id = $1`, w.session.ID)
	require.NoError(w.t, err)
}

func TestRewindWithoutFilesSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"))
	two := w.chat("second", w.writes("a.txt", "2"))
	w.lose()
	moved := w.rewind(two.TurnID)
	require.Equal(t, []history.SkippedFile{{Path: ".", Reason: "the files of this checkpoint were not captured"}}, moved.Files.Skipped)
	require.Equal(t, []string{"first", "step", "done"}, w.messages())
	require.Equal(t, "2", w.files()["a.txt"], "they stay as they are")
	w.chat("third", w.writes("a.txt", "3"))
}

func TestWhatifWithoutFilesIsNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"), w.writes("a.txt", "2"))
	w.lose()
	ack, err := w.service.Whatif(t.Context(), w.owner, domain.Send{
		SessionID: w.session.ID, Message: words("x"), Whatif: &domain.Whatif{FromStep: 1}, Trigger: domain.TriggerWhatif,
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.log.count(domain.EventChatEnd) == 2 }, waitFor, tick)

	var reason, code string
	require.NoError(t, w.j.Pool.QueryRow(t.Context(), `SELECT finish_reason, error_code FROM chats
		WHERE id = $1`, ack.ChatID).Scan(&reason, &code))
	require.Equal(t, []string{"failed", "snapshot_lost"}, []string{reason, code})
	require.Equal(t, []string{"first", "step", "step", "done"}, w.messages(), "the session stands where it stood")
	require.Equal(t, "2", w.files()["a.txt"])
	require.Empty(t, w.begin(), "and its chat is not run")
	w.chat("second")
}

// refusing is an object store that takes nothing while it is shut.
type refusing struct {
	snapshots.Objects
	shut atomic.Bool
	away error // what it returns then; nil: that it is full
}

func (r *refusing) Put(ctx context.Context, key string, data []byte) error {
	if r.shut.Load() {
		if r.away != nil {
			return r.away
		}

		return errors.New("the store is full")
	}

	return r.Objects.Put(ctx, key, data)
}

func TestWhatCannotBeKeptIsNotLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	require.NoError(t, w.service.Flush(t.Context(), w.session.ID))
	store := &refusing{Objects: w.store}
	w.service = w.process(store)
	store.shut.Store(true)
	w.write("a.txt", "only here")
	_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, w.before(one.TurnID).ID)
	require.True(t, domain.HasCode(err, "snapshot_failed"), "%v", err)
	require.True(t, domain.AsError(err).Retryable())
	require.Equal(t, []string{"first", "step", "done"}, w.messages())
	require.Equal(t, "only here", w.files()["a.txt"])

	store.shut.Store(false)

	moved := w.rewind(one.TurnID)
	require.Empty(t, w.files())
	_, err = w.service.SwitchBranch(t.Context(), w.owner, w.session.ID, moved.PreRewindID)
	require.NoError(t, err)
	require.Equal(t, "only here", w.files()["a.txt"])
}

// During an outage of the object store a move changes nothing, also one to files that are
// not stored yet; after it, they are there.
func TestRewind_filesAreNotStoredYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &refusing{Objects: w.store, away: errUnavailable}
	w.service = w.process(store)
	w.write("a.txt", "0")
	store.shut.Store(true)

	one := w.chat("first", func() {
		require.NoError(t, w.service.Settle(t.Context(), w.session.ID))
		w.write("a.txt", "1")
	})
	point := w.before(one.TurnID).ID
	_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, point)
	require.True(t, domain.HasCode(err, "snapshot_failed"), "%v", err)

	// Another process, which reaches the store, finds what this one cannot store yet.
	w.service = w.process(w.store)
	_, err = w.service.Rewind(t.Context(), w.owner, w.session.ID, point)
	require.True(t, domain.HasCode(err, "snapshot_failed"), "%v", err)
	require.Equal(t, []string{"first", "step", "done"}, w.messages())
	require.Equal(t, "1", w.files()["a.txt"])

	store.shut.Store(false)
	require.Eventually(t, func() bool {
		_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, point)
		return err == nil
	}, waitFor, tick)
	require.Equal(t, "0", w.files()["a.txt"])
	require.Empty(t, w.messages())
}
