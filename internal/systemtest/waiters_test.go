package systemtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/testkit"
)

// waiter starts a workflow that takes no signal itself, so that its history shows each.
func (s *stack) waiter() string {
	s.t.Helper()

	id := testkit.Prefix(s.t) + "-waiter"
	_, err := s.client.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: id}, "Waiter")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = s.client.TerminateWorkflow(s.t.Context(), id, "", "the test has ended") })

	return id
}

// signals counts the signals of ended chats that a workflow has received.
func (s *stack) signals(workflowID string) (n int) {
	s.t.Helper()

	history := s.client.GetWorkflowHistory(s.t.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(s.t, err)

		if event.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == contract.ChatEnded.Name {
			n++
		}
	}

	return n
}

func (s *stack) sendAwaited(session domain.SessionID, message, waiter string) domain.SendAck {
	s.t.Helper()
	ack, err := s.chats.Send(s.t.Context(), s.caller, domain.Send{
		SessionID: session, Message: []domain.ContentPart{{Type: "text", Text: message}},
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerSchedule, Waiter: waiter,
	})
	require.NoError(s.t, err)

	return ack
}

// awaitNotified waits until a waiter has received one signal and that is recorded.
func (s *stack) awaitNotified(waiter string, chatID domain.ChatID) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var notified bool

		err := s.journal.Pool.QueryRow(s.t.Context(), `SELECT waiter_notified FROM chats WHERE id = $1`, chatID).Scan(&notified)
		require.NoError(s.t, err)

		return notified
	}, patience, 10*time.Millisecond, "the waiter was not signalled")
	require.Equal(s.t, 1, s.signals(waiter))
}

// No periodic job runs in these tests: the end of the chat itself signals.
func TestWaiters_Signal(t *testing.T) {
	t.Parallel()

	ways := map[string]func(s *stack, session domain.SessionID, waiter string) domain.ChatID{
		"the chat completes": func(s *stack, session domain.SessionID, waiter string) domain.ChatID {
			ack := s.sendAwaited(session, script(obj{"steps": []obj{{"text": "done"}}}), waiter)
			s.awaitEnd(session, ack.ChatID)

			return ack.ChatID
		},
		"the chat is stopped in the queue": func(s *stack, session domain.SessionID, waiter string) domain.ChatID {
			s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("echo begun; sleep 600")}}}}))
			s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_progress" })
			ack := s.sendAwaited(session, "later", waiter)
			_, err := s.chats.Stop(s.t.Context(), s.caller, session, true)
			require.NoError(s.t, err)

			return ack.ChatID
		},
		"the chat is stopped while it waits for input": func(s *stack, session domain.SessionID, waiter string) domain.ChatID {
			ack := s.sendAwaited(session, script(obj{"steps": []obj{{"calls": []obj{ask()}}}}), waiter)
			s.awaitEnd(session, ack.ChatID)
			require.Zero(s.t, s.signals(waiter), "a chat that waits for input has not ended")
			s.stop(session)

			return ack.ChatID
		},
		"the chat is abandoned": func(s *stack, session domain.SessionID, waiter string) domain.ChatID {
			ack := s.sendAwaited(session, script(obj{"steps": []obj{{"calls": []obj{bash("echo begun; sleep 600")}}}}), waiter)
			s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "tool_progress" })
			_, err := s.journal.AbandonChat(s.t.Context(), ack.ChatID, domain.CodeRunLost, "lost")
			require.NoError(s.t, err)

			return ack.ChatID
		},
	}
	for name, ends := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newStack(t)
			waiter := s.waiter()
			s.awaitNotified(waiter, ends(s, s.session(), waiter))
		})
	}
}

// A process that dies between the commit of a chat's end and the signal leaves the waiter
// to the periodic job.
func TestWaiters_Repair(t *testing.T) {
	t.Parallel()

	s := newStack(t)
	s.journal.OnChatEnded(func(domain.ChatWaiter) {})

	session, waiter := s.session(), s.waiter()
	ack := s.sendAwaited(session, script(obj{"steps": []obj{{"text": "done"}}}), waiter)
	s.awaitEnd(session, ack.ChatID)
	require.NoError(t, s.waiters.Repair(t.Context()))
	require.Zero(t, s.signals(waiter), "the process that ended the chat has some seconds to signal")

	s.exec(`UPDATE chats SET ended_at = now() - interval '1 minute' WHERE id = $1`, ack.ChatID)
	require.NoError(t, s.waiters.Repair(t.Context()))
	s.awaitNotified(waiter, ack.ChatID)
}

// A waiter that is closed does not wait any longer.
func TestWaiters_Repair_closedWaiter(t *testing.T) {
	t.Parallel()

	s := newStack(t)
	ack := s.sendAwaited(s.session(), script(obj{"steps": []obj{{"text": "done"}}}), "schedule-run/none")
	require.Eventually(t, func() bool {
		left, err := s.db.ChatWaiters(t.Context(), 0, "", 10)
		require.NoError(t, err)

		var ended bool

		require.NoError(t, s.journal.Pool.QueryRow(t.Context(),
			`SELECT state = 'ended' FROM chats WHERE id = $1`, ack.ChatID).Scan(&ended))

		return ended && len(left) == 0
	}, patience, 10*time.Millisecond)
}
