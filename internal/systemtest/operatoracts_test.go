package systemtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"everloop/domain"
	"everloop/internal/durable"
)

// waitsForModel returns a message whose model call is retried much later.
func waitsForModel() string {
	return script(obj{"steps": []obj{{"status": 429, "retry_after": 500, "fail_times": 1, "text": "there"}}, "note": domain.NewID()})
}

// An operator cancels the workflow of a waiting chat by the Temporal UI or CLI.
func TestChat_cancelledInTemporal(t *testing.T) {
	t.Parallel()
	s := newStack(t)

	asks := script(obj{"steps": []obj{{"calls": []obj{ask()}}}})
	asking := func(t *testing.T, session domain.SessionID) {
		t.Helper()
		s.await(session, domain.EventChatEnd, func(data map[string]any) bool { return data["finish_reason"] == "awaiting_answer" })
	}
	retrying := func(t *testing.T, session domain.SessionID) {
		t.Helper()
		s.await(session, domain.EventTurnPatch, func(data map[string]any) bool { return data["patch_type"] == "retry" })
	}

	for name, c := range map[string]struct {
		message string
		waits   func(t *testing.T, session domain.SessionID)
		ends    string // the finish reason that clients have
	}{
		"question":    {asks, asking, "awaiting_answer"},
		"model retry": {waitsForModel(), retrying, "interrupted"},
		"its sub-agent": {
			script(obj{"steps": []obj{{"calls": []obj{agent("asker", obj{"calls": []obj{ask()}})}}}}), asking, "awaiting_answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			session := s.session()
			workflow := durable.SessionWorkflowID(string(session))
			ack := s.send(session, c.message)
			c.waits(t, session)
			require.NoError(t, s.client.CancelWorkflow(t.Context(), workflow, ""))
			require.Eventually(t, func() bool {
				run, err := s.client.DescribeWorkflow(t.Context(), workflow, "")
				require.NoError(t, err)

				return run.WorkflowCloseTime != nil
			}, patience, 20*time.Millisecond, "the workflow ignores its cancellation")

			require.Equal(t, domain.SessionInterrupted, s.status(session))
			live, err := s.journal.Live(t.Context(), session)
			require.NoError(t, err)
			require.Empty(t, live.Questions)
			require.Equal(t, c.ends, s.awaitEnd(session, ack.ChatID)["finish_reason"])

			next := s.send(session, script(obj{"steps": []obj{{"text": "still here"}}}))
			require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
			s.awaitEnds(session, ack.ChatID, 1)
			s.awaitEnds(session, next.ChatID, 1)
			s.checkEvents(session)
		})
	}
}

// A reset repeats a workflow from an earlier event: the chat continues, and what was done is not
// done again.
func TestChat_resetInTemporal(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.session()
	owned, err := s.journal.OwnSession(t.Context(), s.caller.User, session)
	require.NoError(t, err)
	root, err := s.acts.Tools.Root(t.Context(), session, owned.SandboxUID)
	require.NoError(t, err)

	workflow := durable.SessionWorkflowID(string(session))
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{bash("echo once >> reset")}}, {"calls": []obj{ask()}}, {"text": "thank you"},
	}}))
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])

	waiting := func(of string) (runID string) {
		require.Eventually(t, func() bool {
			run, err := s.client.DescribeWorkflow(t.Context(), workflow, "")
			require.NoError(t, err)

			status, _ := run.TypedSearchAttributes.GetKeyword(durable.ChatStatus)
			runID = run.WorkflowExecution.RunID

			return status == "awaiting_answer" && runID != of
		}, patience, 20*time.Millisecond, "the chat does not wait")

		return runID
	}
	first := waiting("")

	_, err = s.client.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: s.runs.Namespace, RequestId: domain.NewID(), Reason: "by the test",
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: first},
		WorkflowTaskFinishEventId: s.firstTask(workflow, first),
	})
	require.NoError(t, err)
	waiting(first)

	s.answer(session, 0)
	s.await(session, domain.EventChatEnd, func(data map[string]any) bool { return data["finish_reason"] == "completed" })
	s.awaitEnds(session, ack.ChatID, 2)
	s.checkEvents(session)
	require.NoError(t, s.reconciler.CheckRuns(t.Context()))
	require.Empty(t, s.findings())

	written, err := os.ReadFile(filepath.Join(root, "reset"))
	require.NoError(t, err)
	require.Equal(t, "once", strings.TrimSpace(string(written)))
}

// firstTask returns the id of the event that ended the first workflow task of a run.
func (s *stack) firstTask(workflowID, runID string) int64 {
	s.t.Helper()

	events := s.client.GetWorkflowHistory(s.t.Context(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(s.t, err)

		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return event.GetEventId()
		}
	}

	require.Fail(s.t, "no workflow task was completed")

	return 0
}

// A cancelled issue run stops the chat of its agent.
func TestIssueRun_cancelledInTemporal(t *testing.T) {
	t.Parallel()
	s := newOperated(t)
	work := s.issue("cancelled-issue")
	s.awaitText(work.session)
	require.NoError(t, s.client.CancelWorkflow(t.Context(), work.workflow, ""))

	status, _, message := s.settled(work)
	require.Equal(t, "cancelled", status, message)
	s.stopped(work)
	require.Eventually(t, func() bool {
		run, err := s.client.DescribeWorkflow(t.Context(), work.workflow, "")
		require.NoError(t, err)

		return run.Status == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	}, patience, 20*time.Millisecond, "the workflow goes on")
}
