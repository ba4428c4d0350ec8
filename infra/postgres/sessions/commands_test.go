package sessions_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

// What a session says of its commands follows its tool calls and background tasks, while
// a chat runs and at rest.
func TestBase_ReadSession_commands(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, owner, id, chat := pgtest.Running(t, db)
	read := func() domain.Session {
		session, _, err := j.ReadSession(t.Context(), owner, id)
		require.NoError(t, err)

		return session
	}
	set := func(statement string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), statement, args...)
		require.NoError(t, err)
	}
	at := func(second int) time.Time { return time.Date(2040, 1, 1, 0, 0, second, 0, time.UTC) }

	key := domain.TurnKey{SessionID: id, ChatID: chat, LoopID: domain.RootLoop, Step: 1}
	turn, _, err := j.OpenTurn(t.Context(), key, "m", 1, "")
	require.NoError(t, err)
	set(`UPDATE entries SET started_at = $2 WHERE id = $1`, turn.EntryID, at(1))
	require.Nil(t, read().CommandsSince, "the model works, and no command")
	require.WithinDuration(t, at(1), read().RestsSince, 0)

	require.NoError(t, j.CloseTurn(t.Context(), domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Blocks: []domain.Block{},
		Calls: []domain.PlannedCall{
			{ID: "call", ToolName: "Bash", Arguments: "{}"}, {ID: "agent", ToolName: "Agent", Arguments: "{}"},
		},
	}))
	require.Nil(t, read().CommandsSince, "none has begun")

	set(`UPDATE tool_calls SET phase = 'running', started_at = $1 WHERE id = 'agent'`, at(2))
	require.Nil(t, read().CommandsSince, "a sub-agent is no command")
	set(`UPDATE tool_calls SET phase = 'running', started_at = $1 WHERE id = 'call'`, at(3))
	require.WithinDuration(t, at(3), *read().CommandsSince, 0)

	set(`UPDATE tool_calls SET phase = 'finished', status = 'done', duration_ms = 1000`)
	require.Nil(t, read().CommandsSince)
	require.WithinDuration(t, at(4), read().RestsSince, 0)

	set(
		`INSERT INTO background_tasks (id, session_id, kind, title, status, started_at) VALUES ('t', $1, 'shell', 't', 'running', $2)`,
		id,
		at(5),
	)
	require.WithinDuration(t, at(5), *read().CommandsSince, 0)
	set(`UPDATE chats SET state = 'ended' WHERE id = $1`, chat)
	set(`UPDATE sessions SET active_chat_id = NULL, status = 'completed' WHERE id = $1`, id)
	require.WithinDuration(t, at(5), *read().CommandsSince, 0, "also at rest")

	pinned, err := j.SetSessionPinned(t.Context(), owner, id, true)
	require.NoError(t, err)
	require.WithinDuration(t, at(5), *pinned.CommandsSince, 0)

	set(`UPDATE background_tasks SET status = 'completed', finished_at = $1`, at(7))
	require.Nil(t, read().CommandsSince)
	require.WithinDuration(t, at(7), read().RestsSince, 0)
}
