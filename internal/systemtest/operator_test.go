package systemtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/operator"
	"everloop/infra/temporal"
	"everloop/internal/durable"
)

func TestAdministratorsSeeAndEndRuns(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	engine := temporal.Operator{Client: s.client, Chats: s.chats, Marks: s.journal}
	cancelled, failed := s.session(), s.session()
	hold := script(obj{"steps": []obj{{"text": "a long story about everything", "hold": true, "hold_after": 2}}})
	first, second := s.send(cancelled, hold), s.send(failed, hold)
	s.awaitText(cancelled)
	s.awaitText(failed)

	require.Eventually(t, func() bool { // the list comes a little later than the run
		others, _, err := engine.Runs(
			t.Context(),
			operator.RunQuery{Status: "running", SessionID: cancelled, Kind: "chat", Limit: 10},
		)
		if err != nil || len(others) != 1 {
			return false
		}

		runs, _, err := engine.Runs(t.Context(), operator.RunQuery{Status: "running", SessionID: failed, Kind: "chat", Limit: 10})

		return err == nil && len(runs) == 1 && runs[0].WorkflowID == durable.SessionWorkflowID(string(failed)) && runs[0].Type == "Chat" &&
			runs[0].OwnerID == s.caller.User.ID && runs[0].ClosedAt == nil
	}, patience, 50*time.Millisecond)
	_, _, err := engine.Runs(t.Context(), operator.RunQuery{SessionID: "it's", Limit: 10})
	require.NoError(t, err, "a quote in a filter is text")
	page, next, err := engine.Runs(t.Context(), operator.RunQuery{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, next)
	more, _, err := engine.Runs(t.Context(), operator.RunQuery{Limit: 1, Page: next})
	require.NoError(t, err)
	require.NotEqual(t, page[0].RunID, more[0].RunID)
	_, _, err = engine.Runs(t.Context(), operator.RunQuery{Limit: 1, Page: []byte("no page")})
	require.Equal(t, domain.Invalid, domain.AsError(err).Kind)

	require.NoError(t, engine.Cancel(t.Context(), durable.SessionWorkflowID(string(cancelled))))
	require.Equal(t, "interrupted", s.awaitEnd(cancelled, first.ChatID)["finish_reason"])
	require.NoError(t, engine.ForceFail(t.Context(), durable.SessionWorkflowID(string(failed)), "ended by an administrator"))
	require.Eventually(t, func() bool {
		s.age(second.ChatID)
		return s.reconciler.CheckRuns(t.Context()) == nil && s.status(failed) == domain.SessionFailed
	}, patience, 100*time.Millisecond)

	end := s.awaitEnd(failed, second.ChatID)
	require.Equal(t, "failed", end["finish_reason"])
	require.Equal(t, obj{"code": "run_lost", "message": "ended by an administrator", "retryable": true}, end["error"])
	require.Equal(t, domain.NotFound, domain.AsError(engine.Cancel(t.Context(), "session/none")).Kind)
	s.checkEvents(cancelled)
	s.checkEvents(failed)
}

// closedFirst stops a chat whose run is closed: an open one that is terminated a moment
// later would take the signal of the stop with it.
type closedFirst struct{ *stack }

func (c closedFirst) Stop(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, andQueue bool) (bool, error) {
	run, err := c.client.DescribeWorkflow(ctx, durable.SessionWorkflowID(string(sessionID)), "")
	require.NoError(c.t, err)
	require.NotNil(c.t, run.WorkflowCloseTime, "the run is open")

	return c.chats.Stop(ctx, caller, sessionID, andQueue)
}

// A run that waits for an answer hears only the end of its chat.
func TestAdministratorsEndRunsThatWait(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	operator := temporal.Operator{Client: s.client, Chats: s.chats, Marks: s.journal}
	forced := temporal.Operator{Client: s.client, Chats: closedFirst{s}, Marks: s.journal}

	asks := script(obj{"steps": []obj{{"calls": []obj{ask()}}}})
	for name, c := range map[string]struct {
		message string
		end     func(workflowID string) error
	}{
		"cancel": {asks, func(id string) error { return operator.Cancel(t.Context(), id) }},
		"force-fail": {
			asks,
			func(id string) error { return forced.ForceFail(t.Context(), id, "ended by an administrator") },
		},
		"cancel of a sub-agent's one": {
			script(obj{"steps": []obj{{"calls": []obj{agent("asker", obj{"calls": []obj{ask()}})}}}}),
			func(id string) error { return operator.Cancel(t.Context(), id) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			session := s.session()
			workflow := durable.SessionWorkflowID(string(session))
			ack := s.send(session, c.message)
			require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
			require.Eventually(t, func() bool { // it says so a moment after the database
				run, err := s.client.DescribeWorkflow(t.Context(), workflow, "")
				require.NoError(t, err)

				status, _ := run.TypedSearchAttributes.GetKeyword(durable.ChatStatus)

				return status == "awaiting_answer"
			}, patience, 20*time.Millisecond)
			waited, err := s.client.DescribeWorkflow(t.Context(), workflow, "")
			require.NoError(t, err)

			require.NoError(t, c.end(workflow))
			require.Equal(t, domain.SessionInterrupted, s.status(session))
			live, err := s.journal.Live(t.Context(), session)
			require.NoError(t, err)
			require.Empty(t, live.Questions)
			require.Eventually(t, func() bool {
				run, err := s.client.DescribeWorkflow(t.Context(), workflow, waited.WorkflowExecution.RunID)
				return err == nil && run.WorkflowCloseTime != nil
			}, patience, 20*time.Millisecond, "the run goes on")
			require.Eventually(t, func() bool { // once the stop's own wake has found nothing
				stalled, err := s.journal.StalledSessions(t.Context(), 0, "", 10)
				require.NoError(t, err)

				return len(stalled) == 0
			}, patience, 50*time.Millisecond, "a run would be started without end")
			require.Eventually(t, func() bool {
				return domain.HasCode(c.end(workflow), "run_not_found")
			}, patience, 50*time.Millisecond)

			stalled, err := s.journal.StalledSessions(t.Context(), 0, "", 10)
			require.NoError(t, err)
			require.Empty(t, stalled)
			require.NoError(t, s.reconciler.CheckRuns(t.Context()))
			require.Empty(t, s.findings())
			next := s.send(session, script(obj{"steps": []obj{{"text": "still here"}}}))
			require.Equal(t, "completed", s.awaitEnd(session, next.ChatID)["finish_reason"])
			s.awaitEnds(session, ack.ChatID, 1) // it ended for its clients when it started to wait
			s.awaitEnds(session, next.ChatID, 1)
			s.checkEvents(session)
		})
	}
}
