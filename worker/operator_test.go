package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/temporal"
	"everloop/internal/durable"
)

func TestAdministratorsSeeAndEndRuns(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	operator := temporal.Operator{Client: s.client}
	cancelled, failed := s.session(), s.session()
	hold := script(obj{"steps": []obj{{"text": "a long story about everything", "hold": true, "hold_after": 2}}})
	first, second := s.send(cancelled, hold), s.send(failed, hold)
	s.awaitText(cancelled)
	s.awaitText(failed)

	require.Eventually(t, func() bool { // the list comes a little later than the run
		runs, _, err := operator.Runs(t.Context(), domain.OperatorRunQuery{Status: "running", SessionID: failed, Kind: "chat", Limit: 10})
		return err == nil && len(runs) == 1 && runs[0].WorkflowID == durable.SessionWorkflowID(failed) && runs[0].Type == "Chat" &&
			runs[0].OwnerID == s.caller.User.ID && runs[0].ClosedAt == nil
	}, time.Minute, 50*time.Millisecond)
	_, _, err := operator.Runs(t.Context(), domain.OperatorRunQuery{SessionID: "it's", Limit: 10})
	require.NoError(t, err, "a quote in a filter is text")

	require.NoError(t, operator.Cancel(t.Context(), durable.SessionWorkflowID(cancelled)))
	require.Equal(t, "interrupted", s.awaitEnd(cancelled, first.ChatID)["finish_reason"])
	require.NoError(t, operator.ForceFail(t.Context(), durable.SessionWorkflowID(failed), "ended by an administrator"))
	require.Eventually(t, func() bool {
		_, err := s.journal.Pool.Exec(t.Context(), `UPDATE chats SET started_at = now() - interval '1 minute' WHERE id = $1`, second.ChatID)
		return err == nil && s.janitor.Reconcile(t.Context()) == nil && s.status(failed) == domain.SessionFailed
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, "failed", s.awaitEnd(failed, second.ChatID)["finish_reason"])
	parked := s.session()
	s.awaitEnd(parked, s.send(parked, script(obj{"steps": []obj{{"calls": []obj{ask()}}}})).ChatID)
	require.Eventually(t, func() bool {
		return domain.HasCode(operator.Cancel(t.Context(), durable.SessionWorkflowID(parked)), "run_waiting")
	}, time.Minute, 50*time.Millisecond, "a cancellation that does nothing was taken")
	s.stop(parked)
	require.Equal(t, domain.NotFound, domain.AsError(operator.Cancel(t.Context(), "session/none")).Kind)
	s.checkEvents(failed)
}
