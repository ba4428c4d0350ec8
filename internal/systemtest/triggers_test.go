package systemtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/domain/target"
	"everloop/domain/trigger"
	"everloop/infra/secrets"
	"everloop/internal/durable"
	"everloop/service/triggers"
	"everloop/service/work"
)

// hooked is a stack with triggers.
type hooked struct {
	*timetable
	triggers *triggers.Service
	lost     bool // workflows are not started, as when the process dies after the commit
}

func newHooked(t *testing.T) *hooked {
	t.Helper()
	return newHookedOn(t, newTimetable(t))
}

func newHookedOn(t *testing.T, of *timetable) *hooked {
	t.Helper()
	s := &hooked{timetable: of}
	box, err := secrets.NewBox(strings.Repeat("k", 32))
	require.NoError(t, err)

	s.triggers = triggers.New(triggers.Deps{
		DB: s.db.DB, Box: box, Logger: s.logger,
		StartDelivery: func(ctx context.Context, triggerID, deliveryID string) error {
			if s.lost {
				return errors.New("the process died")
			}

			return s.stack.runs.StartTrigger(ctx, triggerID, deliveryID)
		},
	}).With(s.targets)
	s.triggers.Register(s.worker)
	s.db.OnDelivery(s.triggers.FollowRun)

	return s
}

const bearerSecret = "a secret of the sender"

func (s *hooked) create(change func(*trigger.Spec)) trigger.Trigger {
	s.t.Helper()

	auth := trigger.Bearer
	spec := trigger.Spec{
		Name:      "t",
		Kind:      trigger.Webhook,
		Auth:      &auth,
		Enabled:   true,
		RateLimit: 600,
		Target: target.Target{
			Kind:   target.Prompt,
			Prompt: "look at {{body.id}}" + script(obj{"steps": []obj{{"text": "done"}}}),
		},
	}
	change(&spec)

	secret := bearerSecret
	if spec.Kind != trigger.Webhook {
		secret = ""
	}

	made, _, err := s.triggers.Create(s.t.Context(), s.caller.User.ID, spec, secret)
	require.NoError(s.t, err)

	return made
}

func (s *hooked) post(triggerID, body string) (triggers.Received, error) {
	headers := map[string]string{"authorization": "Bearer " + bearerSecret, "content-type": "application/json"}
	return s.triggers.Receive(s.t.Context(), triggerID, headers, func() ([]byte, error) { return []byte(body), nil })
}

// decided waits for the outcome of a delivery.
func (s *hooked) decided(triggerID, deliveryID string) (d trigger.Delivery) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		page, _, err := s.triggers.Deliveries(s.t.Context(), s.caller.User.ID, triggerID, "", 0, 200)
		require.NoError(s.t, err)

		for _, d = range page {
			if d.ID == deliveryID {
				return d.Outcome != nil
			}
		}

		return false
	}, patience, 50*time.Millisecond)

	return d
}

func (s *hooked) sessions() (count int) {
	s.t.Helper()
	require.NoError(
		s.t,
		s.db.Pool.QueryRow(s.t.Context(), `SELECT count(*) FROM sessions WHERE owner_id = $1`, s.caller.User.ID).Scan(&count),
	)

	return count
}

// Requests that repeat a delivery, also at the same time, start one chat.
func TestTrigger_startsOnce(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	made := s.create(func(*trigger.Spec) {})

	var (
		group sync.WaitGroup
		mu    sync.Mutex
		ids   = map[string]int{}
	)

	for range 10 {
		group.Go(func() {
			got, err := s.post(made.ID, `{"id":"item 7"}`)
			if err != nil {
				t.Error(err)
			}

			mu.Lock()
			defer mu.Unlock()

			ids[got.DeliveryID]++
		})
	}

	group.Wait()
	require.Len(t, ids, 1)

	for id := range ids {
		d := s.decided(made.ID, id)
		require.Equal(t, trigger.Fired, *d.Outcome, d)
		s.awaitEnd(*d.SessionID, *d.ChatID)
		require.Contains(t, s.messages(*d.SessionID)[0].Blocks[0].Content, "look at item 7")
		s.replayRun("trigger", durable.TriggerWorkflowID(made.ID, id))
	}

	require.Equal(t, 1, s.sessions())

	_, duplicates, err := s.triggers.Deliveries(t.Context(), s.caller.User.ID, made.ID, trigger.Duplicate, 0, 50)
	require.NoError(t, err)
	require.Equal(t, 9, duplicates)
}

// The reconciler starts a delivery whose process died between the commit and the start, once.
func TestTrigger_startedByTheReconciler(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	made := s.create(func(*trigger.Spec) {})
	s.lost = true
	got, err := s.post(made.ID, `{"id":1}`)
	require.NoError(t, err)

	s.lost = false
	_, err = s.db.Pool.Exec(t.Context(), `UPDATE trigger_deliveries SET due_at = now() - interval '1 minute' WHERE id = $1`, got.DeliveryID)
	require.NoError(t, err)

	check := s.check(1, work.TriggerDeliveries(s.triggers))

	for range 3 {
		require.NoError(t, check(t.Context()))
	}

	d := s.decided(made.ID, got.DeliveryID)
	require.Equal(t, trigger.Fired, *d.Outcome, d)
	require.NoError(t, check(t.Context()))
	require.Equal(t, 1, s.sessions())
}

func TestTrigger_redeliver(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	made := s.create(func(spec *trigger.Spec) { spec.Filter = `body.id > 5` })
	got, err := s.post(made.ID, `{"id":1}`)
	require.NoError(t, err)
	require.Equal(t, trigger.Filtered, *s.decided(made.ID, got.DeliveryID).Outcome)

	_, _, err = s.triggers.Change(t.Context(), s.caller.User.ID, made.ID, func(spec *trigger.Spec) { spec.Filter = "" }, false, "")
	require.NoError(t, err)

	var before domain.SessionID

	for attempt := 2; attempt < 4; attempt++ {
		_, err = s.triggers.Redeliver(t.Context(), s.caller.User.ID, made.ID, got.DeliveryID)
		require.NoError(t, err)

		d := s.decided(made.ID, got.DeliveryID)
		require.Equal(t, []any{trigger.Fired, attempt}, []any{*d.Outcome, d.Attempt})
		require.NotEqual(t, before, *d.SessionID)
		before = *d.SessionID
	}

	require.Equal(t, 2, s.sessions())
}

// A message to a session waits for its running chat, or joins it.
func TestTrigger_messageToASession(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	session := s.session()
	made := s.create(func(spec *trigger.Spec) {
		spec.Target.Kind, spec.Target.SessionID = target.Session, session
	})
	got, err := s.post(made.ID, `{"id":"x"}`)
	require.NoError(t, err)

	d := s.decided(made.ID, got.DeliveryID)
	require.Equal(t, []any{trigger.Fired, session}, []any{*d.Outcome, *d.SessionID})
	s.awaitEnd(session, *d.ChatID)
	require.Contains(t, s.messages(session)[0].Blocks[0].Content, "look at x")

	_, err = s.db.Pool.Exec(t.Context(), `UPDATE sessions SET deleted_at = now() WHERE id = $1`, session)
	require.NoError(t, err)

	got, err = s.post(made.ID, `{"id":"y"}`)
	require.NoError(t, err)

	d = s.decided(made.ID, got.DeliveryID)
	require.Equal(t, []any{trigger.Failed, domain.CodeSessionNotFound}, []any{*d.Outcome, *d.ReasonCode})
}

// A trigger starts nothing while the account of its owner is closed, also when it was closed after
// the delivery arrived.
func TestTrigger_closedAccount(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	made := s.create(func(*trigger.Spec) {})
	s.lost = true
	before, err := s.post(made.ID, `{"id":1}`)
	require.NoError(t, err)

	s.lost = false
	_, err = s.db.Pool.Exec(t.Context(), `UPDATE users SET disabled_at = now() WHERE id = $1`, s.caller.User.ID)
	require.NoError(t, err)
	after, err := s.post(made.ID, `{"id":2}`)
	require.NoError(t, err)
	require.NoError(t, s.triggers.StartDelivery(t.Context(), made.ID, before.DeliveryID))

	for _, id := range []string{before.DeliveryID, after.DeliveryID} {
		d := s.decided(made.ID, id)
		require.Equal(t, []any{trigger.Paused, trigger.ReasonAccountClosed}, []any{*d.Outcome, *d.ReasonCode})
	}

	require.Zero(t, s.sessions())
}

// The end of a run starts what follows it.
func TestTrigger_runEnded(t *testing.T) {
	t.Parallel()
	tasks := newTimetable(t)
	task := tasks.create(func(*schedule.TaskSpec) {})
	s := newHookedOn(t, tasks)
	made := s.create(func(spec *trigger.Spec) {
		spec.Kind, spec.Auth, spec.On = trigger.RunEnded, nil, []trigger.RunEvent{trigger.RunCompleted}
		spec.Source = &trigger.Source{Kind: trigger.SourceTask, ID: task.ID}
		spec.Filter = `event == "run_completed" and body.run.status == "completed"`
		spec.Target.Prompt = "after {{body.run.id}}" + script(obj{"steps": []obj{{"text": "done"}}})
	})
	tasks.runNow(task.ID)
	run := tasks.record(task.ID)

	var delivery string

	require.Eventually(t, func() bool {
		page, _, err := s.triggers.Deliveries(t.Context(), s.caller.User.ID, made.ID, "", 0, 10)
		require.NoError(t, err)

		if len(page) > 0 {
			delivery = page[0].ID
		}

		return delivery != ""
	}, patience, 50*time.Millisecond)

	d := s.decided(made.ID, delivery)
	require.Equal(t, trigger.Fired, *d.Outcome, d)
	s.awaitEnd(*d.SessionID, *d.ChatID)
	require.Contains(t, s.messages(*d.SessionID)[0].Blocks[0].Content, "after "+run.ID)
}

// A delivery starts a DAG run or an issue once, also when its step is repeated, and the end of the
// run belongs to the chain of the delivery.
func TestTrigger_targets(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	workspace, agent := s.newTeam()
	solution := s.publish(`{"id":"a","type":"tool","config":{"tool":"Bash","arguments":{"command":"echo {{input.id}}"}}}`,
		edge("e1", "s", "a"), edge("e2", "a", "z"))

	for name, of := range map[string]target.Target{
		"dag": {Kind: target.DAG, SolutionID: solution, Inputs: map[string]any{"id": "{{body.id}}"}},
		"issue": {
			Kind: target.Issue, WorkspaceID: workspace, Title: "Look at {{body.id}}", AssigneeID: agent,
			Description: script(obj{"steps": []obj{{"text": "done"}}}),
		},
	} {
		made := s.create(func(spec *trigger.Spec) { spec.Target = of })
		got, err := s.post(made.ID, `{"id":"`+name+`"}`)
		require.NoError(t, err)

		d := s.decided(made.ID, got.DeliveryID)
		require.Equal(t, trigger.Fired, *d.Outcome, d)

		_, err = s.db.Pool.Exec(t.Context(), `UPDATE trigger_deliveries SET outcome = NULL, run = NULL WHERE id = $1`, d.ID)
		require.NoError(t, err)
		_, err = s.triggers.Fire(t.Context(), contract.TriggerInput{DeliveryID: d.ID})
		require.NoError(t, err)
		require.Equal(t, d.Run, s.decided(made.ID, d.ID).Run)
		require.Equal(t, 1, s.count(`
			SELECT (SELECT count(*) FROM dag_runs WHERE started_by = $1 AND inputs::jsonb ->> 'id' = 'dag') +
			       (SELECT count(*) FROM issues WHERE started_by = $1 AND title = 'Look at issue')`, "trigger/"+made.ID), name)
	}
}

// A trigger that starts the DAG whose ends it follows fires once.
func TestTrigger_circle(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	solution := s.publish(`{"id":"a","type":"tool","config":{"tool":"Bash","arguments":{"command":"true"}}}`,
		edge("e1", "s", "a"), edge("e2", "a", "z"))
	made := s.create(func(spec *trigger.Spec) {
		spec.Kind, spec.Auth, spec.On = trigger.RunEnded, nil, []trigger.RunEvent{trigger.RunCompleted}
		spec.Source = &trigger.Source{Kind: trigger.SourceDAG, ID: solution}
		spec.Target = target.Target{Kind: target.DAG, SolutionID: solution}
	})
	_, err := s.works.runs.Start(t.Context(), s.caller.User, solution, 0, []byte("{}"))
	require.NoError(t, err)

	var outcomes []string

	check := s.check(1, work.TriggerDeliveries(s.triggers)) // of a start that a busy engine did not take

	require.Eventually(t, func() bool {
		if check(t.Context()) != nil {
			return false
		}

		page, _, err := s.triggers.Deliveries(t.Context(), s.caller.User.ID, made.ID, "", 0, 10)
		require.NoError(t, err)

		outcomes = nil

		for _, d := range page {
			if d.Outcome != nil {
				outcomes = append(outcomes, string(*d.Outcome))
			}
		}

		return len(outcomes) > 1
	}, patience, 50*time.Millisecond, "deliveries: %v", &outcomes)
	require.Equal(t, []string{"failed", "fired"}, outcomes)
	require.Equal(t, 2, s.count(`SELECT count(*) FROM dag_runs WHERE solution_id = $1`, solution))
}
