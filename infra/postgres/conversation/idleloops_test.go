package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
)

// nested opens a turn whose call is a sub-agent, and one of that sub-agent, whose call is
// another. It returns the ids of both.
func nested(t *testing.T, db *postgres.DB, j *postgres.Store, session domain.SessionID, chat domain.ChatID) (outer, inner string) {
	t.Helper()

	parent := domain.RootLoop
	for depth, id := range []string{"outer", "inner"} {
		key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: parent, Step: 1}
		turn, _, err := j.OpenTurn(t.Context(), key, "m", 10, "")
		require.NoError(t, err)
		require.NoError(t, j.CloseTurn(t.Context(), domain.ClosingTurn{
			TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Blocks: []domain.Block{},
			Calls: []domain.PlannedCall{{ID: id, ToolName: "Agent", DisplayName: "Agent", Arguments: "{}"}},
		}))
		_, err = db.Pool.Exec(t.Context(), `
			INSERT INTO loops (id, session_id, chat_id, branch_id, parent_loop_id, depth, agent_type, description, prompt, max_steps,
			                   time_limit_s)
			SELECT $1, session_id, id, branch_id, $2, $3, 'general', 'd', 'p', 9, 60 FROM chats WHERE id = $4`, id, parent, depth+1, chat)
		require.NoError(t, err)

		parent = id
	}

	return "outer", "inner"
}

func TestDB_IdleSubAgents(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, _, session, chat := pgtest.Running(t, db)
	outer, inner := nested(t, db, j, session, chat)

	idle := func(age time.Duration, after string, limit int) (ids []string) {
		found, err := db.IdleSubAgents(t.Context(), age, after, limit)
		require.NoError(t, err)

		for _, agent := range found {
			require.Equal(t, domain.OpenSubAgent{LoopID: agent.LoopID, SessionID: session, ChatID: chat}, agent)
			ids = append(ids, agent.LoopID)
		}

		return ids
	}
	set := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}

	require.Equal(t, []string{inner, outer}, idle(0, "", 10))
	require.Equal(t, []string{inner}, idle(0, "", 1))
	require.Equal(t, []string{outer}, idle(0, string(chat)+"/"+inner, 10))
	require.Empty(t, idle(time.Minute, "", 10), "they have just been reserved")

	set(`UPDATE loops SET created_at = now() - interval '1 hour'`)
	require.Equal(t, []string{inner}, idle(time.Minute, "", 10), "the outer one has just ended a turn")
	set(`UPDATE entries SET started_at = now() - interval '1 hour', ended_at = now() - interval '1 hour'`)
	require.Equal(t, []string{inner, outer}, idle(time.Minute, "", 10))

	set(`UPDATE tool_calls SET lease_until = now() + interval '1 hour' WHERE id = $1`, inner)
	require.Equal(t, []string{inner}, idle(time.Minute, "", 10), "a call of the outer one is being carried out")
	set(`UPDATE tool_calls SET lease_until = NULL`)

	set(`UPDATE loops SET state = 'waiting'`)
	require.Equal(t, []string{inner}, idle(0, "", 10), "its question was answered")
	set(`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, state)
		SELECT 'q', $1, $2, entry_id, id, $3, '[]', 'open' FROM tool_calls WHERE id = $3`, session, chat, inner)
	require.Empty(t, idle(0, "", 10), "they wait for the user")
	set(`UPDATE loops SET state = 'ended'`)
	require.Empty(t, idle(0, "", 10))
}

// The runs of sub-agents are terminated with the one that called them, and cannot end
// themselves.
func TestStore_EndFork_endsThoseBelow(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, _, session, chat := pgtest.Running(t, db)
	outer, inner := nested(t, db, j, session, chat)
	key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: inner, Step: 1}
	_, _, err := j.OpenTurn(t.Context(), key, "m", 10, "")
	require.NoError(t, err)

	_, err = j.EndFork(t.Context(), domain.ForkEnd{LoopID: outer, Status: domain.CallError, Result: "its run was lost"}, 10, nil)
	require.NoError(t, err)

	var open int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM loops WHERE state <> 'ended') + (SELECT count(*) FROM entries WHERE status = 'streaming')
		     + (SELECT count(*) FROM tool_calls WHERE status = 'pending')`).Scan(&open))
	require.Zero(t, open)

	for id, status := range map[string]domain.ToolCallStatus{outer: domain.CallError, inner: domain.CallCancelled} {
		recorded, err := db.CallStatus(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, status, recorded)
	}
}
