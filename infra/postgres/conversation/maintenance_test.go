package conversation_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
)

// The wake of a chat that has ended is cleared by the next run of its session:
// otherwise a new run would be started for it repeatedly.
func TestStore_BeginChat_clearsWakesOfEndedChats(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, _, session, chat := pgtest.Running(t, db)
	_, err := db.Pool.Exec(t.Context(), `UPDATE chats SET state = 'ended', ended_at = now(), wake_pending = true WHERE id = $1`, chat)
	require.NoError(t, err)

	stalled := func() []domain.SessionID {
		found, err := j.StalledSessions(t.Context(), 0, "", 10)
		require.NoError(t, err)

		return found
	}
	require.Equal(t, []domain.SessionID{session}, stalled())
	_, err = j.BeginChat(t.Context(), contract.BeginChatIn{SessionID: session, RunID: "r2"})
	require.NoError(t, err)
	require.Empty(t, stalled())

	_, err = db.Pool.Exec(t.Context(), `UPDATE chats SET ended_at = now() - interval '2 hours', wake_pending = true WHERE id = $1`, chat)
	require.NoError(t, err)
	require.Empty(t, stalled(), "a wake that nothing has taken for long is given up")
}

// A chat whose run was lost starts again for clients, once, with resumed: true;
// one whose run only continued in another one does not.
func TestStore_BeginChat_resumesAfterALostRun(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	log := &pgtest.Log{}
	j, _, session, chat := pgtest.RunningWith(t, db, log)
	begin := func(run string) {
		out, err := j.BeginChat(t.Context(), contract.BeginChatIn{SessionID: session, RunID: run})
		require.NoError(t, err)
		require.Equal(t, chat, out.ChatID)
	}
	begin("r2") // continued as new
	begin("r2") // tried again

	_, err := db.CountRestart(t.Context(), chat, "r2")
	require.NoError(t, err)
	begin("r3")
	begin("r3")

	_, err = db.CountRestart(t.Context(), chat, "r3")
	require.NoError(t, err)
	begin("r4")

	starts := func() (resumed []bool) {
		for _, e := range log.Events() {
			var start domain.ChatStarted
			if e.Name == domain.EventChatStart {
				require.NoError(t, json.Unmarshal(e.Data, &start))
				require.Equal(t, domain.ChatStarted{Mode: domain.ModeExecuting, Trigger: domain.TriggerUser, Resumed: start.Resumed}, start)
				resumed = append(resumed, start.Resumed)
			}
		}

		return resumed
	}

	require.Eventually(t, func() bool { return slices.Equal([]bool{false, true, true}, starts()) }, time.Minute, 5*time.Millisecond)
}

func TestInbox_takenMessagesKeepNoContent(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, user, session, chat := pgtest.Running(t, db)
	content := func() (parts string) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT parts::text FROM inbox WHERE session_id = $1`, session).Scan(&parts))
		return parts
	}
	require.Equal(t, "[]", content())
	again, err := j.Enqueue(t.Context(), user.ID, domain.Send{SessionID: session, ClientMessageID: "m1", Trigger: domain.TriggerUser})
	require.NoError(t, err)
	require.True(t, again.Ack.Duplicate)
	require.Equal(t, chat, again.Ack.ChatID)

	_, err = db.Pool.Exec(t.Context(), `UPDATE inbox SET parts = '[{"type":"text"}]' WHERE session_id = $1`, session)
	require.NoError(t, err)
	n, err := db.PruneInbox(t.Context(), 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "of an earlier version")
	require.Equal(t, "[]", content())
}

func TestDB_CountRestart(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, user, session, chat := pgtest.Running(t, db)
	count := func(run string) domain.Restart {
		r, err := db.CountRestart(t.Context(), chat, run)
		require.NoError(t, err)

		return r
	}
	require.Equal(t, domain.Restart{Running: true, Counted: true, Count: 1}, count("r1"))
	require.Equal(t, domain.Restart{Running: true, Count: 1}, count("r1"), "a run is lost once")
	require.Equal(t, 2, count("r2").Count)

	key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: domain.RootLoop, Step: 1}
	turn, _, err := j.OpenTurn(t.Context(), key, "m", 1, "")
	require.NoError(t, err)
	require.Equal(t, 3, count("r3").Count, "an open turn is no progress")
	require.NoError(t, j.CloseTurn(t.Context(), domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Blocks: []domain.Block{},
	}))
	require.Equal(t, 1, count("r4").Count)
	require.NoError(t, db.ForceFailChat(t.Context(), session, "enough"))
	require.Equal(t, "enough", count("r5").ForceFailed)
	_, err = j.RequestStop(t.Context(), user.ID, session, false)
	require.NoError(t, err)
	_, err = j.FinishChat(t.Context(), contract.FinishChatIn{ChatID: chat, Reason: domain.FinishInterrupted}, nil)
	require.NoError(t, err)
	require.Equal(t, domain.Restart{}, count("r6"))
}

// A chat whose ordinary end fails can be ended plainly: its session is free again, and
// nothing of it is left open.
func TestStore_AbandonChat(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, user, session, chat := pgtest.Running(t, db)
	key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: domain.RootLoop, Step: 1}
	turn, _, err := j.OpenTurn(t.Context(), key, "m", 1, "")
	require.NoError(t, err)
	require.NoError(t, j.CloseTurn(t.Context(), domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Blocks: []domain.Block{},
		Calls: []domain.PlannedCall{{ID: "call1", ToolName: "Bash", DisplayName: "Bash", Arguments: "{}"}},
	}))
	key.Step = 2
	_, _, err = j.OpenTurn(t.Context(), key, "m", 1, "")
	require.NoError(t, err)
	steered, err := j.Enqueue(t.Context(), user.ID, domain.Send{
		SessionID: session,
		Message:   []domain.ContentPart{{Type: "text", Text: "and then?"}},
		Delivery:  domain.DeliverSteer,
		Trigger:   domain.TriggerUser,
	})
	require.NoError(t, err)
	require.Equal(t, domain.DeliverSteer, steered.Ack.DeliveryApplied)

	next, err := j.AbandonChat(t.Context(), chat, domain.CodeInternal, "could not be finished")
	require.NoError(t, err)
	require.True(t, next, "the steered message has a chat of its own")

	var state, reason, call, open string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
		SELECT c.state, c.finish_reason, (SELECT status FROM tool_calls WHERE id = 'call1'),
		       (SELECT count(*)::text FROM entries WHERE chat_id = c.id AND status IN ('streaming', 'paused'))
		FROM   chats c WHERE c.id = $1`, chat).Scan(&state, &reason, &call, &open))
	require.Equal(t, []string{"ended", "failed", "cancelled", "0"}, []string{state, reason, call, open})
	found, err := j.OwnSession(t.Context(), user, session)
	require.NoError(t, err)
	require.Equal(t, domain.SessionFailed, found.Status)
	_, err = j.AbandonChat(t.Context(), chat, domain.CodeInternal, "again")
	require.NoError(t, err)
}

func TestDB_RunningChats_leavesOutThoseThatShowHeartbeats(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, _, session, chat := pgtest.Running(t, db)
	lost := func() int {
		found, err := db.RunningChats(t.Context(), 10*time.Minute, "", 10)
		require.NoError(t, err)

		return len(found)
	}
	set := func(statement string) {
		_, err := db.Pool.Exec(t.Context(), statement, chat)
		require.NoError(t, err)
	}

	require.Zero(t, lost(), "it has just begun")
	set(`UPDATE chats SET started_at = now() - interval '1 hour' WHERE id = $1`)
	require.Zero(t, lost(), "its message has just become a turn")
	set(`UPDATE entries SET started_at = now() - interval '1 hour', ended_at = NULL WHERE chat_id = $1`)
	require.Equal(t, 1, lost())

	key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: domain.RootLoop, Step: 1}
	_, _, err := j.OpenTurn(t.Context(), key, "m", 1, "")
	require.NoError(t, err)
	require.Zero(t, lost(), "a turn has just begun")
	set(`UPDATE entries SET started_at = now() - interval '1 hour', ended_at = NULL WHERE chat_id = $1`)
	require.Equal(t, 1, lost())
	set(`UPDATE chats SET waiting_until = now() + interval '1 hour' WHERE id = $1`)
	require.Zero(t, lost(), "its next try is due later")
}

// Only one process leads, and the next one does when its connection is lost.
func TestDB_Lead(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()

	leading := make(chan context.Context)
	first := make(chan error, 1)

	go func() {
		led, err := db.Lead(ctx, "test", func(ctx context.Context) {
			leading <- ctx

			<-ctx.Done()
		})
		require.True(t, led)

		first <- err
	}()

	<-leading

	led, err := db.Lead(ctx, "test", func(context.Context) { t.Error("two lead") })
	require.NoError(t, err)
	require.False(t, led)
	led, err = db.Lead(ctx, "another", func(context.Context) {})
	require.NoError(t, err)
	require.True(t, led)

	var killed int
	require.NoError(t, db.Pool.QueryRow(ctx, `
		SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&killed))
	require.Equal(t, 1, killed)
	require.Error(t, <-first, "a lost connection is a lost lead")
	require.Eventually(t, func() bool {
		led, err := db.Lead(ctx, "test", func(context.Context) {})
		return err == nil && led
	}, time.Minute, 50*time.Millisecond)
}

func TestDB_PruneAudit(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO audit (id, actor_id, action, target, created_at)
		SELECT lpad(n::text, 4, '0'), '', '', '', now() - interval '1 day' * (100 - n) FROM generate_series(1, 100) n`)
	require.NoError(t, err)

	removed := int64(0)

	for range 10 {
		n, err := accounts.New(db.DB).PruneAudit(t.Context(), 30*24*time.Hour, 25)
		require.NoError(t, err)

		removed += n
	}

	require.EqualValues(t, 70, removed)
}
