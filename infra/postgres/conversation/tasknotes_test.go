package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
	"everloop/service/tasks"
)

func TestEndedTasksAreNotedForTheModelOnce(t *testing.T) {
	t.Parallel()

	j, log, session := pgtest.Session(t)
	store := tasks.NewStore(j.DB, j.Outbox)

	for _, id := range []string{"t1", "t2"} {
		_, err := store.AddTask(t.Context(), contract.NewTask{
			ID: id, SessionID: session.ID, ChatID: "chat", ToolCallID: "call", Kind: domain.TaskShell,
			Title: "Start the server", Command: "npm run dev", OutputPath: ".everloop/tasks/" + id + ".log",
		})
		require.NoError(t, err)
	}

	_, err := store.MarkTaskLost(t.Context(), "t1", "the service was restarted")
	require.NoError(t, err)
	_, err = j.Pool.Exec(t.Context(), `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state) VALUES ('chat', $1, $2, 'user', 'executing', 'running')`,
		session.ID, session.ActiveBranchID)
	require.NoError(t, err)

	join := func() {
		require.NoError(t, j.Update(t.Context(), func(c *pg.Tx) error {
			return conversation.JoinTaskNotes(t.Context(), c, session.ID, session.ActiveBranchID, "chat")
		}))
	}
	join()
	join()

	transcript, err := j.Transcript(
		t.Context(),
		domain.TranscriptQuery{BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 100},
	)
	require.NoError(t, err)

	turns := transcript.Turns
	require.Len(t, turns, 1)
	require.Equal(t, domain.RoleSystem, turns[0].Role)
	require.Equal(t, "Background task t1 (Start the server) has ended: lost, the service was restarted. "+
		"Its output is in .everloop/tasks/t1.log.", turns[0].Parts[0].Text)

	exit := 3
	_, err = store.ClaimTask(t.Context(), "t2", "run", 1)
	require.NoError(t, err)
	require.NoError(t, store.EndTask(t.Context(), "t2", 1, contract.TaskEnd{Status: domain.TaskFailed, ExitCode: &exit}))
	join()

	transcript, err = j.Transcript(
		t.Context(),
		domain.TranscriptQuery{BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 100},
	)
	require.NoError(t, err)

	turns = transcript.Turns
	require.Len(t, turns, 2)
	require.Contains(t, turns[1].Parts[0].Text, "failed, exit code 3.")
	require.NoError(t, j.Flush(t.Context()))

	names := log.Names()
	require.Equal(t, []string{domain.EventTurnStart, domain.EventTurnEnd}, names[len(names)-2:])
}
