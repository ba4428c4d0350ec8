package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/infra/postgres/pgtest"
)

func TestBase_Waits(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	_, user, session, chat := pgtest.Running(t, db)
	longest, drifted, err := db.Waits(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]time.Duration{"question": 0, "model": 0, "queue": 0}, longest)
	require.Equal(t, map[string]int{"overdue": 0, "unsynced": 0}, drifted)

	exec := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(`UPDATE chats SET model_faults = 1, model_faults_since = now() - interval '2 hours' WHERE id = $1`, chat)
	exec(`INSERT INTO inbox (session_id, kind, chat_id, turn_id, delivery_applied, position, parts, created_at)
		VALUES ($1, 'message', $2, 'turn-of-waits', 'queued', 1, '[]', now() - interval '3 hours')`, session, chat)
	exec(`INSERT INTO scheduled_tasks (id, owner_id, title, prompt, cron, timezone, enabled, skip_confirmations, persistent, overlap,
		catchup_window_s, pause_on_failure_after, jitter_s, next_run_at)
		VALUES ('late', $1, '', '', '* * * * *', 'UTC', true, false, false, 'skip', 60, 0, 0, now() - interval '1 hour')`, user.ID)

	longest, drifted, err = db.Waits(t.Context())
	require.NoError(t, err)
	require.Zero(t, longest["question"])
	require.InDelta(t, 2*time.Hour, longest["model"], float64(time.Hour/2))
	require.InDelta(t, 3*time.Hour, longest["queue"], float64(time.Hour/2))
	require.Equal(t, map[string]int{"overdue": 1, "unsynced": 1}, drifted)

	exec(`UPDATE chats SET state = 'ended' WHERE id = $1`, chat)
	exec(`UPDATE inbox SET state = 'cancelled' WHERE chat_id = $1`, chat)
	exec(`UPDATE scheduled_tasks SET enabled = false, pending = NULL`)

	longest, drifted, err = db.Waits(t.Context())
	require.NoError(t, err)
	require.Zero(t, longest["model"]+longest["queue"])
	require.Equal(t, map[string]int{"overdue": 0, "unsynced": 0}, drifted)
}
