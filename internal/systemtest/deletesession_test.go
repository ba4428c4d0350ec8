package systemtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/durable"
	"everloop/service/work"
)

// outside is what a session has in addition to its rows. The first removal of its files
// fails.
type outside struct {
	mu      sync.Mutex
	tries   int
	removed []string
}

func (o *outside) note(what string) error {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.removed = append(o.removed, what)

	return nil
}

func (o *outside) SessionDeleted(_ context.Context, id domain.SessionID) error {
	return o.note("servers of " + string(id))
}

func (o *outside) Remove(_ context.Context, id domain.SessionID) error {
	o.mu.Lock()
	o.tries++
	first := o.tries == 1
	o.mu.Unlock()

	if first {
		return errors.New("the file system is away")
	}

	return o.note("files of " + string(id))
}

func (o *outside) DeletePrefix(_ context.Context, prefix string) error {
	return o.note(prefix)
}

// A session that is deleted while its chat runs is gone at once, and everything of it
// soon after, although a step failed and the start was lost.
func TestSessionDeleter_removesARunningSession(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	rest := &outside{}
	s.removal(rest.SessionDeleted, rest.Remove, rest.DeletePrefix)

	deleter := s.deleter(func(context.Context, domain.DeletedSession) error { return errors.New("Temporal is away") })

	session := s.session()
	before := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("echo one")}}, {"text": "done"}}}))
	require.Equal(t, "completed", s.awaitEnd(session, before.ChatID)["finish_reason"])
	s.send(session, script(obj{"steps": []obj{{"text": "a long story about everything", "hold": true, "hold_after": 2}}}))
	s.send(session, "queued")
	s.awaitText(session)

	require.NoError(t, deleter.DeleteSession(t.Context(), session))
	_, err := s.journal.SessionRun(t.Context(), "", session)
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound))
	require.True(t, domain.HasCode(deleter.DeleteSession(t.Context(), session), domain.CodeSessionNotFound))

	_, err = s.journal.Pool.Exec(t.Context(), `UPDATE sessions SET deleted_at = now() - interval '1 minute' WHERE id = $1`, session)
	require.NoError(t, err)
	require.NoError(t, s.check(1, work.DeletedSessions(s.runs))(t.Context()), "the reconciler repeats the lost start")
	require.Contains(t, s.findings(), "lost_deletion")
	s.replayRun("session_deleted", durable.DeletionWorkflowID(string(session)))

	var rows int
	require.NoError(t, s.journal.Pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM sessions WHERE id = $1) + (SELECT count(*) FROM chats WHERE session_id = $1)
		     + (SELECT count(*) FROM entries WHERE session_id = $1) + (SELECT count(*) FROM tool_calls WHERE session_id = $1)
		     + (SELECT count(*) FROM inbox WHERE session_id = $1) + (SELECT count(*) FROM branches
		         WHERE session_id = $1)`, session).Scan(&rows))
	require.Zero(t, rows)
	require.Contains(t, rest.removed, "files of "+string(session))
	require.Contains(t, rest.removed, "servers of "+string(session))

	for _, prefix := range work.SessionPrefixes {
		require.Contains(t, rest.removed, prefix+string(session)+"/")
	}

	require.Empty(t, s.events(session))
}

// A session that was not used for the time of its class is removed like one that a
// person deletes.
func TestExpireSessions_removesASession(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	rest := &outside{tries: 1}
	s.removal(rest.SessionDeleted, rest.Remove, rest.DeletePrefix)

	deleter := s.deleter(s.runs.StartDeletion)

	old, fresh := s.session(), s.session()
	for _, session := range []domain.SessionID{old, fresh} {
		chat := s.send(session, script(obj{"steps": []obj{{"text": "done"}}}))
		require.Equal(t, "completed", s.awaitEnd(session, chat.ChatID)["finish_reason"])
	}

	_, err := s.journal.Pool.Exec(t.Context(), `
		UPDATE sessions SET created_at = created_at - interval '1 day', updated_at = updated_at - interval '1 day' WHERE id = $1`, old)
	require.NoError(t, err)

	ages := map[domain.SessionClass]time.Duration{domain.ClassChat: time.Hour}
	require.NoError(t, work.ExpireSessions(s.journal.SessionStore(), deleter, ages, s.logger)(t.Context()))
	_, err = s.journal.SessionRun(t.Context(), "", old)
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound))
	_, err = s.journal.SessionRun(t.Context(), "", fresh)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var left int

		err := s.journal.Pool.QueryRow(t.Context(), `SELECT count(*) FROM sessions WHERE deleted_at IS NOT NULL`).Scan(&left)

		return err == nil && left == 0
	}, time.Minute, 10*time.Millisecond, "its rows are removed")
}
