package triggers_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/domain/target"
	"everloop/domain/trigger"
	"everloop/domain/webhook"
	"everloop/infra/postgres"
	"everloop/infra/postgres/notify"
	"everloop/infra/secrets"
	"everloop/internal/testkit"
	"everloop/service/triggers"
)

// followed is a scheduled task whose runs triggers follow.
type followed struct {
	t       *testing.T
	db      *postgres.DB
	service *triggers.Service
	owner   string
	task    schedule.Task
	started []string // deliveries whose workflows were started
}

func newFollowed(t *testing.T) *followed {
	t.Helper()

	db := testkit.Database(t)
	box, err := secrets.NewBox(strings.Repeat("k", 32))
	require.NoError(t, err)

	s := &followed{t: t, db: db, owner: testkit.User(t, db, "ann").ID}
	s.service = triggers.New(triggers.Deps{
		DB: db.DB, Box: box, Logger: slog.New(slog.DiscardHandler),
		StartDelivery: func(context.Context, string, string) error { return nil },
	})
	db.OnDelivery(func(_, deliveryID string) { s.started = append(s.started, deliveryID) })

	s.task, err = db.CreateScheduledTask(t.Context(), s.owner, schedule.TaskSpec{
		Title: "t", Prompt: "p", Cron: "@daily", Timezone: "UTC", Overlap: schedule.OverlapSkip,
	})
	require.NoError(t, err)

	return s
}

func (s *followed) follow(rate int) string {
	s.t.Helper()

	made, _, err := s.service.Create(s.t.Context(), s.owner, trigger.Spec{
		Name: "f", Kind: trigger.RunEnded, On: []trigger.RunEvent{trigger.RunFailed}, Enabled: true, RateLimit: rate,
		Source: &trigger.Source{Kind: trigger.SourceTask, ID: s.task.ID},
		Target: target.Target{Kind: target.Prompt, Prompt: "x"},
	}, "")
	require.NoError(s.t, err)

	return made.ID
}

func (s *followed) end(event webhook.Event, runID string) {
	s.t.Helper()
	require.NoError(s.t, s.db.InTx(s.t.Context(), func(tx pgx.Tx) error {
		return notify.TaskEvent(s.t.Context(), tx, event, s.task, []schedule.Run{{ID: runID, TaskID: s.task.ID, ScheduledFor: time.Now()}})
	}))
}

// newest returns the outcome of the newest delivery of a trigger, with its reason; empty: it is due.
func (s *followed) newest(triggerID string) (outcome trigger.Outcome, reason string) {
	s.t.Helper()

	page, _, err := s.service.Deliveries(s.t.Context(), s.owner, triggerID, "", 0, 1)
	require.NoError(s.t, err)

	if page[0].Outcome != nil {
		outcome = *page[0].Outcome
	}

	if page[0].ReasonCode != nil {
		reason = *page[0].ReasonCode
	}

	return outcome, reason
}

func TestRunEnded_startsAfterTheCommit(t *testing.T) {
	t.Parallel()

	s := newFollowed(t)
	id := s.follow(1)
	s.end(webhook.RunCompleted, "r0") // not one that the trigger names
	require.Empty(t, s.started)

	err := s.db.InTx(t.Context(), func(tx pgx.Tx) error {
		if err := notify.TaskEvent(t.Context(), tx, webhook.RunFailed, s.task, []schedule.Run{{ID: "r1"}}); err != nil {
			return err
		}

		return domain.Newf(domain.Conflict, "rolled_back", "the transaction is rolled back")
	})
	require.Error(t, err)
	require.Empty(t, s.started)

	s.end(webhook.RunFailed, "r2")
	require.Len(t, s.started, 1)

	outcome, _ := s.newest(id)
	require.Empty(t, outcome)

	s.end(webhook.RunFailed, "r3")
	outcome, _ = s.newest(id)
	require.Equal(t, trigger.RateLimited, outcome)
	require.Len(t, s.started, 1)
}

// A chain of triggers ends where one of them would start again, and at eight of them.
func TestRunEnded_circle(t *testing.T) {
	t.Parallel()

	s := newFollowed(t)
	id, other := s.follow(600), s.follow(600)

	chain := func(run string, ancestors []string, by string) {
		_, err := s.db.Pool.Exec(t.Context(), `
			INSERT INTO trigger_deliveries (id, work_id, trigger_id, key, counted, outcome, event, headers, body_bytes, ancestors, run)
			VALUES ($1, 'w', $2, $1, true, 'fired', 'run_failed', '{}', 0, $3, $4)`, domain.NewID(), by, ancestors, "task/"+run)
		require.NoError(t, err)
	}

	chain("r1", []string{}, id) // the trigger has started this run
	s.end(webhook.RunFailed, "r1")

	outcome, reason := s.newest(id)
	require.Equal(t, []any{trigger.Failed, trigger.ReasonCircle}, []any{outcome, reason})
	outcome, _ = s.newest(other)
	require.Empty(t, outcome, "another trigger continues the chain")

	chain("r2", slices.Repeat([]string{"x"}, trigger.MaxDepth-1), other)
	s.end(webhook.RunFailed, "r2")
	_, reason = s.newest(id)
	require.Equal(t, trigger.ReasonDepth, reason)
}
