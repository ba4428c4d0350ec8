package sessions_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

func TestStore_DeleteExpired(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	exec := func(sql string, args ...any) {
		t.Helper()

		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	chat := func(id domain.SessionID, trigger domain.Trigger) {
		exec(`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
			SELECT $1, id, active_branch_id, $3, 'executing', 'ended' FROM sessions WHERE id = $2`, domain.NewID(), id, trigger)
	}
	// made makes a session of a scheduled run that is over for two days, and changes it.
	made := func(change string) domain.SessionID {
		session, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Class: domain.ClassSchedule})
		require.NoError(t, err)
		chat(session.ID, domain.TriggerSchedule)
		exec(`UPDATE sessions SET status = 'completed', created_at = now() - interval '2 days', updated_at = now() - interval '2 days'
			WHERE id = $1`, session.ID)

		if change != "" {
			exec(change, session.ID)
		}

		return session.ID
	}
	expired := func(class domain.SessionClass, age time.Duration, limit int) (ids []domain.SessionID) {
		t.Helper()

		deleted, err := db.DeleteExpired(t.Context(), class, age, limit)
		require.NoError(t, err)

		for _, session := range deleted {
			require.Equal(t, ann.ID, session.OwnerID)
			ids = append(ids, session.SessionID)
		}

		return ids
	}

	answered, failed := made(""), made(`UPDATE sessions SET status = 'failed', created_at = created_at + interval '1 second' WHERE id = $1`)
	chat(answered, domain.TriggerAnswer)

	for _, change := range []string{
		`UPDATE sessions SET is_pinned = true WHERE id = $1`,
		`UPDATE sessions SET shared = true WHERE id = $1`,
		`UPDATE sessions SET is_persistent = true WHERE id = $1`,
		`UPDATE sessions SET status = 'waiting_for_input' WHERE id = $1`,
		`UPDATE sessions SET status = 'running' WHERE id = $1`,
		`UPDATE sessions SET operation_id = 'o' WHERE id = $1`,
		`UPDATE sessions SET updated_at = now() - interval '23 hours' WHERE id = $1`,
		`UPDATE sessions SET deleted_at = now() WHERE id = $1`,
		`INSERT INTO inbox (session_id, kind, chat_id, turn_id, delivery_applied, position, parts)
			SELECT $1, 'message', id, 't', 'enqueue', 1, '[]' FROM chats WHERE session_id = $1`,
		`INSERT INTO background_tasks (id, session_id, kind, title, command, status, output_path)
			VALUES ('b', $1, 'shell', 't', 'c', 'running', 'o')`,
		`UPDATE sessions SET class = 'dag' WHERE id = $1`,
	} {
		made(change)
	}

	talked := made("")
	chat(talked, domain.TriggerUser)

	require.Empty(t, expired(domain.ClassSchedule, 3*24*time.Hour, 10))
	require.Equal(t, []domain.SessionID{answered}, expired(domain.ClassSchedule, 24*time.Hour, 1), "the oldest first")
	require.Equal(t, []domain.SessionID{failed}, expired(domain.ClassSchedule, 24*time.Hour, 100))
	require.Empty(t, expired(domain.ClassSchedule, 24*time.Hour, 100), "each once")

	_, err := db.SessionRun(t.Context(), "", answered)
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound))

	require.Len(t, expired(domain.ClassDAG, 24*time.Hour, 100), 1)
	require.Empty(t, expired(domain.ClassIssue, 24*time.Hour, 100))
	require.Equal(t, []domain.SessionID{talked}, expired(domain.ClassChat, 24*time.Hour, 100), "a user has written in it")
}

// A message that is acknowledged while unused sessions are looked for keeps its session.
func TestStore_DeleteExpired_messageMeanwhile(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	made := func() domain.SessionID {
		session, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Class: domain.ClassChat})
		require.NoError(t, err)

		_, err = db.Pool.Exec(t.Context(), `
			UPDATE sessions SET status = 'completed', created_at = now() - interval '2 days', updated_at = now() - interval '2 days'
			WHERE  id = $1`, session.ID)
		require.NoError(t, err)

		return session.ID
	}
	deleted := func() []domain.DeletedSession {
		found, err := db.DeleteExpired(t.Context(), domain.ClassChat, time.Hour, 10)
		require.NoError(t, err)

		return found
	}
	written, other := made(), made()

	require.NoError(t, db.InTx(t.Context(), func(tx pgx.Tx) error { // as one that queues a message
		if _, err := tx.Exec(t.Context(), `SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE`, written); err != nil {
			return err
		}

		require.Equal(t, []domain.DeletedSession{{SessionID: other, OwnerID: ann.ID}}, deleted(), "what is written to is left out")

		_, err := tx.Exec(t.Context(), `
			WITH chat AS (
				INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
				SELECT 'c', id, active_branch_id, 'user', 'executing', 'ended' FROM sessions WHERE id = $1 RETURNING id)
			INSERT INTO inbox (session_id, kind, chat_id, turn_id, delivery_applied, position, parts)
			SELECT $1, 'message', id, 't', 'enqueue', 1, '[]' FROM chat`, written)

		return err
	}))

	require.Empty(t, deleted(), "it has a message now")
}
