package systemtest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// age makes a chat look as if nothing had happened in it for a while.
func (s *stack) age(chatID domain.ChatID) {
	s.t.Helper()

	for _, statement := range []string{
		`UPDATE chats SET started_at = now() - interval '1 minute' WHERE id = $1`,
		`UPDATE entries SET started_at = now() - interval '1 minute', ended_at = ended_at - interval '1 minute' WHERE chat_id = $1`,
		`UPDATE tool_calls SET lease_until = now() - interval '1 second' WHERE chat_id = $1 AND lease_until > now()
			AND status <> 'pending'`,
	} {
		_, err := s.journal.Pool.Exec(s.t.Context(), statement, chatID)
		require.NoError(s.t, err)
	}
}

// findings returns the kinds of what the reconciler has found so far.
func (s *stack) findings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.Clone(s.found)
}

func (s *stack) terminate(sessionID domain.SessionID) {
	s.t.Helper()
	require.NoError(
		s.t,
		s.client.TerminateWorkflow(s.t.Context(), durable.SessionWorkflowID(string(sessionID)), "", "terminated by the test"),
	)
}

// reconcileUntil checks runs until something holds.
func (s *stack) reconcileUntil(chatID domain.ChatID, holds func() bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.age(chatID)
		require.NoError(s.t, s.reconciler.CheckRuns(s.t.Context()))

		return holds()
	}, patience, 50*time.Millisecond)
}

func TestReconciler_CheckRuns_goesOnAfterATerminatedRun(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{bash("echo done >> effects; wc -l < effects")}},
		{"text": "a long story about everything", "hold": true, "hold_after": 2},
		{"text": "the end"},
	}}))
	s.awaitText(session)
	require.NoError(t, s.reconciler.CheckRuns(t.Context()))
	require.Empty(t, s.findings(), "a chat that has just begun a turn is alive")

	s.terminate(session)
	s.reconcileUntil(ack.ChatID, func() bool { return slices.Contains(s.findings(), "lost_run") })
	s.releaseUntil(func() bool { return s.anyChatEnded(session) })
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.awaitEnds(session, ack.ChatID, 1)
	require.Equal(t, []string{"lost_run"}, s.findings(), "each lost run is one finding")

	results := 0

	for _, turn := range s.messages(session) {
		for _, call := range turn.ToolCalls {
			results++

			require.Equal(t, "1", call.Result[:1], "the command ran once")
		}
	}

	require.Equal(t, 1, results)
	s.checkEvents(session)
}

func TestReconciler_CheckRuns_failsAChatWhoseRunsAreLostAgainAndAgain(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{{"text": "a long story about everything", "hold": true, "hold_after": 2}}}))

	run := ""
	for range 4 {
		before, last := len(s.findings()), run

		require.Eventually(t, func() bool { // a new run may join the model call of the one before
			require.NoError(t, s.journal.Pool.QueryRow(t.Context(), `SELECT coalesce(run_id, '') FROM chats
				WHERE id = $1`, ack.ChatID).Scan(&run))

			return run != "" && run != last
		}, patience, 10*time.Millisecond)
		s.terminate(session)
		s.reconcileUntil(ack.ChatID, func() bool { return len(s.findings()) > before })
	}

	s.reconcileUntil(ack.ChatID, func() bool { return s.anyChatEnded(session) })
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "failed", end["finish_reason"])
	require.Equal(t, "run_lost", end["error"].(map[string]any)["code"])
	s.awaitEnds(session, ack.ChatID, 1)
	s.checkEvents(session)
	require.Equal(t, []string{"lost_run", "lost_run", "lost_run", "lost_run"}, s.findings())

	next := s.send(session, script(obj{"steps": []obj{{"text": "still here"}}}))
	require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
}

// A parked chat needs no run: its answer starts one.
func TestReconciler_WakeSessions_answerOfATerminatedRun(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{ask()}}, {"text": "thank you"}}}))
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.terminate(session)
	require.NoError(t, s.reconciler.CheckRuns(t.Context()))
	require.Empty(t, s.findings())
	s.answer(session, 0)
	s.await(session, domain.EventChatEnd, func(data map[string]any) bool { return data["finish_reason"] == "completed" })
	s.checkEvents(session)
}

// A deploy whose workflow panics leaves runs that cannot continue, within a chat and
// between two. Each continues from the database in a new run.
func TestReconciler_restartsStuckRuns(t *testing.T) {
	t.Parallel()

	for name, broken := range map[string]func(ctx workflow.Context, in contract.ChatInput) error{
		"stuck_run": func(workflow.Context, contract.ChatInput) error { panic("broken by a deploy") },
		"lost_run": func(ctx workflow.Context, in contract.ChatInput) error {
			_, err := contract.BeginChat.Local(ctx, contract.BeginChatIn{
				SessionID: in.SessionID, RunID: workflow.GetInfo(ctx).WorkflowExecution.RunID,
			})
			panic(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.worker.Stop()
			deployed := sdkworker.New(s.client, s.queue, sdkworker.Options{})
			deployed.RegisterWorkflowWithOptions(broken, workflow.RegisterOptions{Name: contract.WorkflowChat})
			contract.BeginChat.Handle(deployed, s.acts.Chat.Store.BeginChat)
			require.NoError(t, deployed.Start())

			session := s.session()
			ack := s.send(session, script(obj{"steps": []obj{{"text": "hello"}}}))

			require.Eventually(t, func() bool {
				look, err := s.runs.LookAtSession(t.Context(), session)
				return err == nil && look.State == domain.RunStuck
			}, patience, 100*time.Millisecond, "its workflow task keeps failing")
			deployed.Stop()
			s.startWorker()

			require.Eventually(t, func() bool {
				s.age(ack.ChatID)
				_, err := s.journal.Pool.Exec(t.Context(), `UPDATE inbox SET created_at = now() - interval '1 minute'
					WHERE session_id = $1`, session)
				require.NoError(t, err)
				require.NoError(t, s.reconciler.WakeSessions(t.Context()))
				require.NoError(t, s.reconciler.CheckRuns(t.Context()))

				return slices.Contains(s.findings(), name)
			}, patience, 100*time.Millisecond)
			require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
			s.awaitEnds(session, ack.ChatID, 1)
			s.checkEvents(session)
		})
	}
}
