package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// A message that waited behind a long chat is not without a worker at the moment
// that chat ends.
func TestTheQueueHasNoWorkerOnceNobodyTookItForAWhile(t *testing.T) {
	t.Parallel()
	db := open(t)
	ann := person(t, db, "ann", false)
	s, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
	require.NoError(t, err)
	chat := domain.NewID()
	_, err = db.Pool.Exec(t.Context(), `INSERT INTO chats (id, session_id, branch_id, trigger, mode, state) VALUES ($1, $2, $3, 'user', 'executing', 'queued')`,
		chat, s.ID, s.ActiveBranchID)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO inbox (session_id, kind, chat_id, turn_id, delivery_applied, position, parts, created_at)
		VALUES ($1, 'message', $2, $3, 'enqueue', 1, '[]', now() - interval '1 minute')`, s.ID, chat, domain.NewID())
	require.NoError(t, err)

	for _, c := range []struct {
		changed string // how long ago the chat before it ended; a slow machine takes its time to ask
		want    domain.WaitingReason
	}{
		{"-1 minute", domain.WaitingQueued},
		{"30 seconds", domain.WaitingWorkerMissing},
	} {
		_, err = db.Pool.Exec(t.Context(), `UPDATE sessions SET updated_at = now() - $2::interval WHERE id = $1`, s.ID, c.changed)
		require.NoError(t, err)
		read, _, err := db.ReadSession(t.Context(), ann, s.ID)
		require.NoError(t, err)
		require.Equal(t, c.want, read.WaitingReason, c.changed)
	}
}
