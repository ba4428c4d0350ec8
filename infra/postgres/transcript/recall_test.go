package transcript_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

// The end of a chat locks the session, the entry, then the chat. A recall that
// held the chat while it waits for the entry would deadlock with it.
func TestDB_RememberRecall_locksTheSessionFirst(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 2)
	turn := domain.OpenedTurn{EntryID: domain.TurnID(string(chat) + "-1"), Session: session}

	tx, err := j.Pool.Begin(t.Context())

	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()

	_, err = tx.Exec(t.Context(), `SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE`, session.ID)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE entries SET status = 'interrupted' WHERE id = $1`, turn.EntryID)
	require.NoError(t, err)

	recalled := make(chan error, 1)
	go func() {
		recalled <- j.RememberRecall(t.Context(), chat, turn, []domain.RecalledMemory{{ID: 1, Content: "likes tea"}})
	}()

	ending := tx.Conn().PgConn().PID()
	blocked := `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid)))`

	require.Eventually(t, func() bool {
		var waits bool
		return j.Pool.QueryRow(t.Context(), blocked, int32(ending)).Scan(&waits) == nil && waits
	}, time.Minute, 5*time.Millisecond, "the recall waits for the end of the chat")

	_, err = tx.Exec(t.Context(), `SELECT 1 FROM chats WHERE id = $1 FOR UPDATE NOWAIT`, chat)
	require.NoError(t, err, "the recall holds no lock on the chat")
	_, err = tx.Exec(t.Context(), `UPDATE chats SET state = 'ended' WHERE id = $1`, chat)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-recalled, domain.ErrFenced)

	var refs, given *string
	require.NoError(t, j.Pool.QueryRow(t.Context(), `
		SELECT e.memory_refs::text, c.recalled::text FROM entries e JOIN chats c ON c.id = e.chat_id
		    WHERE e.id = $1`, turn.EntryID).Scan(&refs, &given))
	require.Nil(t, refs, "an ended chat is not changed")
	require.Nil(t, given)
}

func TestDB_RememberRecall_isKeptWithTheChatAndTheTurn(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 2)
	require.NoError(t, j.RememberRecall(t.Context(), chat, domain.OpenedTurn{EntryID: domain.TurnID(string(chat) + "-1"), Session: session},
		[]domain.RecalledMemory{{ID: 7, Content: "likes tea"}}))
	transcript, err := j.Transcript(
		t.Context(),
		domain.TranscriptQuery{ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40},
	)
	require.NoError(t, err)
	require.Len(t, transcript.Recalled, 1)

	var memory int64
	require.NoError(t, j.Pool.QueryRow(t.Context(), `SELECT (memory_refs->0->>'memory_id')::bigint FROM entries
		WHERE id = $1`, string(chat)+"-1").Scan(&memory))
	require.EqualValues(t, 7, memory)
}

// A memory counts as used when a request to the model was made with it, and not before.
func TestStore_CloseTurn_recordsUsedMemories(t *testing.T) {
	t.Parallel()

	for _, reminded := range []bool{true, false} {
		db := pgtest.Open(t)
		j, _, session, chat := pgtest.Running(t, db)
		key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: domain.RootLoop, Step: 1}
		turn, _, err := j.OpenTurn(t.Context(), key, "m", 1, "")
		require.NoError(t, err)
		require.NoError(t, j.RememberRecall(t.Context(), chat, turn, []domain.RecalledMemory{{ID: 7, Score: 0.5}, {ID: 9}}))

		refs := func() (refs string) {
			require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT memory_refs FROM entries WHERE id = $1`, turn.EntryID).Scan(&refs))
			return refs
		}
		require.JSONEq(t, `[{"memory_id":7,"score":0.5,"used":false},{"memory_id":9,"used":false}]`, refs())

		require.NoError(t, j.CloseTurn(t.Context(), domain.ClosingTurn{
			TurnKey:  key,
			EntryID:  turn.EntryID,
			Attempt:  turn.Attempt,
			Status:   domain.TurnCompleted,
			Blocks:   []domain.Block{},
			Reminded: reminded,
		}))
		require.JSONEq(t, fmt.Sprintf(`[{"memory_id":7,"score":0.5,"used":%t},{"memory_id":9,"used":%[1]t}]`, reminded), refs())
	}
}
