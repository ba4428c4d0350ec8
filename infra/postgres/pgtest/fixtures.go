package pgtest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres"
)

// Session returns the stores with a log, and a session of its own user.
func Session(t testing.TB) (*postgres.Store, *Log, domain.Session) {
	t.Helper()
	db, log := Open(t), &Log{}
	user := User(t, db, "owner", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{Env: map[string]string{"A": "b"}})
	require.NoError(t, err)

	return postgres.NewStore(db, log, slog.New(slog.NewTextHandler(t.Output(), nil))), log, session
}

// Send stores a message as the service of chats does.
func Send(t testing.TB, db *postgres.DB, ownerID string, send domain.Send) (domain.Enqueued, error) {
	t.Helper()
	return postgres.NewStore(db, &Log{}, slog.New(slog.DiscardHandler)).Enqueue(t.Context(), ownerID, send)
}

// Running returns a session of its own user, whose first chat runs.
func Running(t testing.TB, db *postgres.DB) (j *postgres.Store, user domain.User, sessionID domain.SessionID, chatID domain.ChatID) {
	t.Helper()
	return RunningWith(t, db, &Log{})
}

// RunningWith is Running with an event log that the test can read.
func RunningWith(
	t testing.TB,
	db *postgres.DB,
	log *Log,
) (j *postgres.Store, user domain.User, sessionID domain.SessionID, chatID domain.ChatID) {
	t.Helper()

	j = postgres.NewStore(db, log, slog.New(slog.DiscardHandler))
	user = User(t, db, "owner", false)
	session, err := j.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)
	sent, err := j.Enqueue(t.Context(), user.ID, domain.Send{
		SessionID: session.ID, ClientMessageID: "m1", Message: []domain.ContentPart{{Type: "text", Text: "hello"}},
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
	})
	require.NoError(t, err)
	out, err := j.BeginChat(t.Context(), contract.BeginChatIn{SessionID: session.ID, RunID: "r1"})
	require.NoError(t, err)
	require.Equal(t, sent.Ack.ChatID, out.ChatID)

	return j, user, session.ID, out.ChatID
}

// Say adds a finished turn to a session, with blocks as JSON.
func Say(t testing.TB, db *postgres.DB, s domain.Session, n int, blocks string) {
	t.Helper()

	chat := domain.NewID()
	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state) VALUES ($1, $2, $3, 'user', 'executing', 'ended')`,
		chat, s.ID, s.ActiveBranchID)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, blocks)
		VALUES ($1, $2, $3, $4, $5, 'assistant', 'completed', $6::jsonb)`,
		domain.NewID(), s.ID, s.ActiveBranchID, n, chat, blocks)
	require.NoError(t, err)
}

// History writes turns of a session directly: of the user and the assistant by turns,
// each of the assistant with one tool call. It returns their chat, which runs.
func History(tb testing.TB, db *postgres.Store, session domain.Session, turns int) (chat domain.ChatID) {
	tb.Helper()

	chat = domain.ChatID(domain.NewID())
	ctx := context.Background()
	exec := func(sql string, args ...any) {
		_, err := db.Pool.Exec(ctx, sql, args...)
		require.NoError(tb, err)
	}
	exec(`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state) VALUES ($1, $2, $3, 'user', 'executing', 'running')`,
		chat, session.ID, session.ActiveBranchID)
	exec(`
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, step, blocks, parts, input_tokens, model)
		SELECT $1 || '-' || n, $2, $3, n, $1, CASE WHEN n % 2 = 0 THEN 'user' ELSE 'assistant' END, 'completed', n,
		       jsonb_build_array(jsonb_build_object('type', 'text', 'content', 'said ' || n || repeat(' word', 100))),
		       jsonb_build_array(jsonb_build_object('type', 'text', 'text', 'said ' || n || repeat(' word', 100))), 1000, 'm'
		FROM   generate_series(0, $4::int - 1) n`, chat, session.ID, session.ActiveBranchID, turns)
	exec(`
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase, result)
		SELECT 'call-' || e.id, e.session_id, e.chat_id, e.id, 0, 'Bash', 'Bash', '{}', 'done', 'finished', repeat('r', 500)
		FROM   entries e WHERE e.chat_id = $1 AND e.role = 'assistant'`, chat)
	exec(`UPDATE branches SET next_sequence = $2 WHERE id = $1`, session.ActiveBranchID, turns)

	return chat
}
