package systemtest

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/internal/durable"
)

// retries returns the retry patches of a session.
func (s *stack) retries(session domain.SessionID) (found []map[string]any) {
	s.t.Helper()

	for _, e := range s.events(session) {
		if d := fields(e); d["patch_type"] == "retry" {
			found = append(found, d)
		}
	}

	return found
}

// waits returns the waiting reasons that were published, each change once.
func (s *stack) waits(session domain.SessionID) (reasons []string) {
	s.t.Helper()

	for _, e := range s.events(session) {
		if e.Name == domain.EventSessionUpdated {
			reasons = append(reasons, fields(e)["waiting_reason"].(string))
		}
	}

	return reasons
}

// timers gives the summaries of a history's timers.
func timers(t *testing.T, history *historypb.History) (summaries []string) {
	t.Helper()

	for _, event := range history.Events {
		if event.GetTimerStartedEventAttributes() == nil {
			continue
		}

		var summary string
		if payload := event.GetUserMetadata().GetSummary(); payload != nil {
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payload, &summary))
		}

		summaries = append(summaries, summary)
	}

	return summaries
}

func init() {
	scenarios["model_outage"] = func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, script(obj{"steps": []obj{{"status": 503, "fail_times": 3, "text": "there"}}, "note": session}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
		found := s.retries(session)
		require.Len(t, found, 3)

		var before time.Time

		for i, retry := range found {
			require.EqualValues(t, i+1, retry["attempt"])
			require.Contains(t, retry["reason"], "status 503")
			at, err := time.Parse(time.RFC3339Nano, retry["next_attempt_at"].(string))
			require.NoError(t, err)
			emitted, err := time.Parse(time.RFC3339Nano, retry["ts"].(string))
			require.NoError(t, err)

			pause := time.Second << i // a busy machine comes late, which leaves less of a pause and makes it start later
			require.Less(t, at.Sub(emitted), pause+900*time.Millisecond)

			if i > 0 {
				require.Greater(t, at.Sub(before), pause-100*time.Millisecond, "the pause grows")
			}

			before = at
		}

		require.Equal(
			t,
			"model,model_unavailable,model,model_unavailable,model,model_unavailable,model,none",
			strings.Join(s.waits(session), ","),
		)
		require.Equal(t, []string{
			"Model unavailable: retry of model call 1 after fault 1 (transient, status 503)",
			"Model unavailable: retry of model call 1 after fault 2 (transient, status 503)",
			"Model unavailable: retry of model call 1 after fault 3 (transient, status 503)",
		}, timers(t, s.histories(durable.SessionWorkflowID(string(session)))[0]))

		var faults int
		require.NoError(t, s.journal.Pool.QueryRow(t.Context(), `SELECT model_faults FROM chats WHERE id = $1`, ack.ChatID).Scan(&faults))
		require.Zero(t, faults, "a call that succeeds ends the count")
	}
	scenarios["sub_agent_outage_stop"] = func(t *testing.T, s *stack, session domain.SessionID) {
		inner := agent("inner", obj{"status": 429, "retry_after": 300})
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{agent("one", obj{"calls": []obj{inner}})}}}}))
		s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "retry" })
		s.stop(session)
		require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	}
	scenarios["sub_agent_outage"] = func(t *testing.T, s *stack, session domain.SessionID) {
		s.acts.Model.Plans.ForkLimits.Time = time.Minute
		failing := agent("one", obj{"status": 503, "fail_times": 2, "text": "first"})
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{failing}}, {"text": "done"}}, "note": session}))
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])
		require.Len(t, s.retries(session), 2)

		var left int
		require.NoError(t, s.journal.Pool.QueryRow(t.Context(), `SELECT sum(model_faults) FROM loops
			WHERE session_id = $1`, session).Scan(&left))
		require.Zero(t, left)
	}
}

// An outage that ends within the time of the session's own setting, and one that
// does not: the chat fails as one that may be sent again, and the session continues.
func TestModelOutage_limit(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.retry(modelretry.Policy{For: 2 * time.Second, Unattended: time.Hour})
	failing := script(obj{"steps": []obj{{"status": 500, "fail_times": 3, "text": "there"}}, "note": s.queue})
	session := s.session()
	ack := s.send(session, failing)
	end := s.awaitEnd(session, ack.ChatID)
	require.Equal(t, "failed", end["finish_reason"])
	fault := end["error"].(map[string]any)
	require.Equal(t, "model_unavailable", fault["code"])
	require.Equal(t, true, fault["retryable"])
	require.Contains(t, fault["message"], "calls failed in")
	require.Equal(t, "completed", s.talk(session, plain(1, 10))["finish_reason"], "the next message goes on")

	patient := s.setUp(domain.SessionSetup{MaxModelRetryS: 600})
	mine := script(obj{"steps": []obj{{"status": 500, "fail_times": 3, "text": "there"}}, "note": patient})
	require.Equal(t, "completed", s.talk(patient, mine)["finish_reason"])

	scheduled := s.session()
	ack, err := s.chats.Send(t.Context(), s.caller, domain.Send{
		SessionID: scheduled,
		Message: []domain.ContentPart{
			{Type: "text", Text: script(obj{"steps": []obj{{"status": 500, "fail_times": 3, "text": "there"}}, "note": scheduled})},
		},
		Delivery: domain.DeliverEnqueue,
		Trigger:  domain.TriggerSchedule,
	})
	require.NoError(t, err)
	require.Equal(t, "completed", s.awaitEnd(scheduled, ack.ChatID)["finish_reason"])

	for _, id := range []domain.SessionID{session, patient, scheduled} {
		s.checkEvents(id)
	}
}

// Workers that are shut down in the middle of a call use up none of its tries, and
// a wait for the model outlives them.
func TestModelOutage_workersComeAndGo(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.retry(modelretry.Policy{For: 5 * time.Minute})

	const restarts = 10

	var calls atomic.Int32

	started := make(chan struct{}, restarts)
	server := newFaultServer(t, map[string]faultCase{"m": {answer: func(w http.ResponseWriter, r request) {
		switch n := calls.Add(1); {
		case n <= restarts: // the worker is shut down while this is answered
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: " + text("half of") + "\n\n"))
			_ = http.NewResponseController(w).Flush()

			started <- struct{}{}

			time.Sleep(900 * time.Millisecond) //nolint:forbidigo // a slow server, nothing waits for it
			panic(http.ErrAbortHandler)
		case n <= restarts+2:
			refusal(w, 503, "", "later")
		default:
			say(w, text("there"), finish("stop"))
		}
	}}})
	s.useModels(server.URL)
	session := s.onModel("m", domain.SessionSetup{})
	ack := s.headless(session, "")

	for range restarts {
		<-started
		s.worker.Stop()
		s.startWorker()
	}

	s.await(session, domain.EventSessionUpdated, func(d map[string]any) bool { return d["waiting_reason"] == "model_unavailable" })
	s.worker.Stop()
	s.startWorker()
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.checkEvents(session)
}

// A run that is lost while its model is away is replaced by one that waits as long
// as is left.
func TestModelOutage_lostRun(t *testing.T) {
	t.Parallel()
	s := newStack(t)

	var (
		session domain.SessionID
		ack     domain.SendAck
	)

	for after := 8; ; after *= 4 { // a busy machine may come when the wait has ended
		session = s.session()
		ack = s.send(
			session,
			script(obj{"steps": []obj{{"status": 429, "retry_after": after, "fail_times": 1, "text": "there"}}, "note": session}),
		)
		s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "retry" })

		err := s.client.TerminateWorkflow(context.Background(), durable.SessionWorkflowID(string(session)), "", "lost")
		if err == nil && !s.anyChatEnded(session) {
			break
		}

		require.Less(t, after, 100, "%v", err)
	}

	run, err := s.journal.SessionRun(t.Context(), s.caller.User.ID, session)
	require.NoError(t, err)
	require.NoError(t, s.runs.Wake(t.Context(), run))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	retry := s.retries(session)
	require.Len(t, retry, 1, "the model was not called before its time")
	due, err := time.Parse(time.RFC3339Nano, retry[0]["next_attempt_at"].(string))
	require.NoError(t, err)

	for _, e := range s.events(session) {
		if fields(e)["patch_type"] == domain.PatchAddContent {
			emitted, err := time.Parse(time.RFC3339Nano, fields(e)["ts"].(string))
			require.NoError(t, err)
			require.WithinRange(t, emitted, due.Add(-time.Second), emitted)
		}
	}

	s.checkEvents(session)
}

// A summary waits for its model, too.
func TestModelOutage_summary(t *testing.T) {
	t.Parallel()
	s := newStack(t)

	session := s.small(nil)
	for i := range 5 {
		s.talk(session, plain(i, 700))
	}

	failing := obj{"status": 503, "fail_times": 2, "text": "the summary"}
	end := s.talk(session, "x"+filler(1400)+script(obj{"steps": []obj{{"text": "went on"}}, "summary": failing, "note": session}))
	require.Equal(t, "completed", end["finish_reason"], end)

	found := s.compactions(session)
	require.Len(t, found, 1)
	require.Equal(t, domain.TurnCompleted, found[0].Status, "%+v", found[0].FailureReason)
	require.Contains(t, s.waits(session), "model_unavailable")
	s.checkEvents(session)
	s.replay(session, "compact_outage")
}
