//go:build linux

package history_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/history"
	"everloop/service/tasks"
)

// ask makes a chat that ends with a question to the user.
func (w *world) ask(text string) (ack domain.SendAck, question domain.Question) {
	w.t.Helper()
	ctx := w.t.Context()
	ack = w.send(text)
	require.Equal(w.t, ack.ChatID, w.begin())
	key := domain.TurnKey{SessionID: w.session.ID, ChatID: ack.ChatID, LoopID: domain.RootLoop, Step: 1}
	turn, _, err := w.j.OpenTurn(ctx, key, "mock", 10, "")
	require.NoError(w.t, err)

	call := domain.NewToolCallID()
	require.NoError(w.t, w.j.CloseTurn(ctx, domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnPaused, Blocks: []domain.Block{},
		Calls: []domain.PlannedCall{
			{
				ID:          call,
				ToolName:    "AskUserQuestion",
				DisplayName: "Question",
				Arguments:   "{}",
				Questions:   json.RawMessage(`[{"question":"Which?"}]`),
			},
		},
	}))
	out, err := w.j.ParkChat(ctx, contract.ParkChatIn{ChatID: ack.ChatID})
	require.NoError(w.t, err)
	require.Equal(w.t, contract.Parked, out.State)
	question, open, err := w.j.Question(ctx, w.owner.ID, w.session.ID, call)
	require.NoError(w.t, err)
	require.True(w.t, open)

	return ack, question
}

func (w *world) status() domain.SessionStatus {
	w.t.Helper()
	s, err := w.j.OwnSession(w.t.Context(), w.owner, w.session.ID)
	require.NoError(w.t, err)

	return s.Status
}

func TestRewindCancelsTheOpenQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"))
	asked, question := w.ask("second")
	require.Equal(t, domain.SessionWaitingForInput, w.status())
	moved := w.rewind(asked.TurnID)
	require.Equal(t, 1, moved.Cancelled.Questions)
	require.NotNil(t, moved.Cancelled.RunID)
	require.Equal(t, domain.SessionInterrupted, w.status())
	require.NoError(t, w.j.Flush(t.Context()))
	require.Equal(t, 1, w.log.count(domain.EventQuestionResolved))
	_, open, err := w.j.Question(t.Context(), w.owner.ID, w.session.ID, question.ToolCallID)
	require.NoError(t, err)
	require.False(t, open)
	resolved, err := w.j.ResolveQuestion(t.Context(), w.owner.ID, question, w.owner.ID, `{"answers":[]}`)
	require.NoError(t, err)
	require.False(t, resolved, "a late answer changes nothing")
	checked, err := w.j.CheckChat(t.Context(), contract.CheckChatIn{ChatID: asked.ChatID})
	require.NoError(t, err)
	require.Equal(t, contract.Closed, checked.State, "the waiting run is closed")
	require.Equal(t, []string{"first", "step", "done"}, w.messages())
	w.chat("third", w.writes("b.txt", "2"))
}

func TestAnAnswerWaitsForAMoveUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked, question := w.ask("first")
	claimed, err := w.service.ClaimHistory(t.Context(), w.owner.ID, history.Request{
		Kind: domain.OperationRewind, SessionID: w.session.ID, CheckpointID: w.before(asked.TurnID).ID,
	})
	require.NoError(t, err)
	_, err = w.j.ResolveQuestion(t.Context(), w.owner.ID, question, w.owner.ID, `{"answers":[]}`)
	require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%v", err)
	require.True(t, domain.AsError(err).Retryable())
	op, err := w.service.AttemptHistory(t.Context(), claimed.Operation.ID)
	require.NoError(t, err)
	require.NoError(t, w.service.AbortHistory(t.Context(), op, domain.Newf(domain.Unavailable, "snapshot_failed", "no luck")))
	resolved, err := w.j.ResolveQuestion(t.Context(), w.owner.ID, question, w.owner.ID, `{"answers":[]}`)
	require.NoError(t, err)
	require.True(t, resolved, "nothing was changed by the move that was given up")
}

func TestBackgroundTasksGoOnDetached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))

	var call string
	require.NoError(t, w.j.Pool.QueryRow(t.Context(), `SELECT id FROM tool_calls WHERE session_id = $1`, w.session.ID).Scan(&call))
	store := tasks.NewStore(w.j.DB, w.j.Outbox)
	_, err := store.AddTask(t.Context(), contract.NewTask{
		ID: "bg_1", SessionID: w.session.ID, ChatID: one.ChatID, ToolCallID: call, Kind: domain.TaskShell, Title: "Serve",
	})
	require.NoError(t, err)

	moved := w.rewind(one.TurnID)
	require.Equal(t, 1, moved.Cancelled.Detached)
	require.Zero(t, moved.Cancelled.BackgroundTasks)
	list, err := store.List(t.Context(), w.session.ID)
	require.NoError(t, err)
	require.True(t, list[0].Detached)
	require.Equal(t, domain.TaskRunning, list[0].Status)

	points := w.checkpoints()
	require.False(t, points[len(points)-1].Files.Complete, "something was writing")

	_, err = store.MarkTaskLost(t.Context(), "bg_1", "gone")
	require.NoError(t, err)
	w.chat("another")
	require.Equal(t, []string{"another", "done"}, w.messages(), "a branch without the task has no note of it")
	_, err = w.service.SwitchBranch(t.Context(), w.owner, w.session.ID, points[0].ID)
	require.NoError(t, err)
	w.chat("more")
	require.Contains(t, w.messages()[4], "bg_1", "the branch that started it is")
}
