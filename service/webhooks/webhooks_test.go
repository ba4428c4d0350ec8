package webhooks

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/infra/postgres"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
)

// sending is a database with one user and a chat.
type sending struct {
	t       *testing.T
	db      *postgres.DB
	store   *Store
	owner   string
	session domain.SessionID
	chat    domain.ChatID
}

func newSending(t *testing.T) sending {
	t.Helper()
	db := pgtest.Open(t)
	_, user, session, chat := pgtest.Running(t, db)

	return sending{t, db, NewStore(db.DB), user.ID, session, chat}
}

func (s sending) webhook(change func(*webhook.Spec)) webhook.Webhook {
	s.t.Helper()

	spec := webhook.Spec{URL: "https://hooks.example.org/", Events: []webhook.Event{webhook.All}, Enabled: true}
	if change != nil {
		change(&spec)
	}

	made, err := s.store.CreateWebhook(s.t.Context(), s.owner, domain.NewID(), spec, []byte("sealed"))
	require.NoError(s.t, err)

	return made
}

// ended writes the deliveries of the chat's end.
func (s sending) ended(reason domain.FinishReason) {
	s.t.Helper()
	require.NoError(s.t, s.db.InTx(s.t.Context(), func(tx pgx.Tx) error {
		return notify.ChatEnded(s.t.Context(), tx, s.session, s.chat, domain.ChatEnded{Status: reason.Status(), FinishReason: reason})
	}))
}

func (s sending) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.db.Pool.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

func (s sending) deliveries(w webhook.Webhook) []webhook.Delivery {
	s.t.Helper()
	page, total, err := s.store.WebhookDeliveries(s.t.Context(), s.owner, w.ID, "", "", 0, 200)
	require.NoError(s.t, err)
	require.Len(s.t, page, total)

	return page
}

func (s sending) claim(limit int) []webhook.DueDelivery {
	s.t.Helper()
	due, err := s.store.ClaimDeliveries(s.t.Context(), limit)
	require.NoError(s.t, err)

	return due
}

func (s sending) record(due webhook.DueDelivery, answer webhook.Answer) string {
	s.t.Helper()
	disabled, err := s.store.RecordAttempt(s.t.Context(), due, answer)
	require.NoError(s.t, err)

	return disabled
}

var (
	taken   = webhook.Answer{StatusCode: 200, Response: "ok"}
	refused = webhook.Answer{StatusCode: 500, Response: "no", Error: "the endpoint answered 500"}
)

func TestClaimDeliveries_closedAccount(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	s.webhook(nil)
	s.ended(domain.FinishCompleted)
	s.exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, s.owner)
	require.Empty(t, s.claim(10))
	s.exec(`UPDATE users SET disabled_at = NULL WHERE id = $1`, s.owner)
	require.Len(t, s.claim(10), 1, "it waited")
}

func TestChatEnded_isForThoseWhoAskForIt(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	other := domain.NewID()
	s.exec(`INSERT INTO scheduled_tasks (id, owner_id, title, prompt, cron, timezone, enabled, skip_confirmations, persistent, overlap,
		catchup_window_s, pause_on_failure_after, jitter_s)
		    VALUES ($1, $2, 't', 'p', '@daily', 'UTC', true, false, false, 'skip', 0, 0, 0)`, other, s.owner)
	all, failed := s.webhook(nil), s.webhook(func(w *webhook.Spec) { w.Events = []webhook.Event{webhook.ChatFailed} })
	here := s.webhook(func(w *webhook.Spec) { w.SessionID = &s.session })
	off := s.webhook(func(w *webhook.Spec) { w.Enabled = false })
	ofTask := s.webhook(func(w *webhook.Spec) { w.TaskID = &other })
	outsider := pgtest.User(t, s.db, "outsider", false).ID
	theirs, err := s.store.CreateWebhook(t.Context(), outsider, domain.NewID(), webhook.Spec{
		URL: "https://hooks.example.org/", Events: []webhook.Event{webhook.All}, Enabled: true,
	}, nil)
	require.Error(t, err, "a webhook has a secret")
	theirs, err = s.store.CreateWebhook(t.Context(), outsider, domain.NewID(), webhook.Spec{
		URL: "https://hooks.example.org/", Events: []webhook.Event{webhook.All}, Enabled: true,
	}, []byte("sealed"))
	require.NoError(t, err)

	s.ended(domain.FinishMaxSteps)
	require.Len(t, s.deliveries(failed), 1)
	s.ended(domain.FinishCompleted)
	require.Len(t, s.deliveries(all), 2)
	require.Len(t, s.deliveries(here), 2)
	require.Len(t, s.deliveries(failed), 1)
	require.Empty(t, s.deliveries(off))
	require.Empty(t, s.deliveries(ofTask))
	_, n, err := s.store.WebhookDeliveries(t.Context(), outsider, theirs.ID, "", "", 0, 1)
	require.NoError(t, err)
	require.Zero(t, n)
	_, _, err = s.store.WebhookDeliveries(t.Context(), outsider, all.ID, "", "", 0, 1)
	require.True(t, domain.HasCode(err, "webhook_not_found"))

	newest := s.deliveries(all)[0]
	require.Equal(t, webhook.ChatCompleted, newest.Event)

	var body struct {
		Type string
		Data struct {
			SessionID    domain.SessionID `json:"session_id"`
			ChatID       domain.ChatID    `json:"chat_id"`
			FinishReason string           `json:"finish_reason"`
		}
	}
	require.NoError(t, json.Unmarshal(newest.Request, &body))
	require.Equal(t, "chat.completed", body.Type)
	require.Equal(
		t,
		[]string{string(s.session), string(s.chat), "completed"},
		[]string{string(body.Data.SessionID), string(body.Data.ChatID), body.Data.FinishReason},
	)

	require.NoError(t, accounts.New(s.db.DB).DeleteUser(t.Context(), s.owner))

	var left int
	require.NoError(t, s.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM webhooks WHERE owner_id = $1`, s.owner).Scan(&left))
	require.Zero(t, left)
}

func TestWebhooks_filtersAreTheOwnersOwn(t *testing.T) {
	t.Parallel()
	s := newSending(t)

	outsider := pgtest.User(t, s.db, "outsider", false).ID
	for _, spec := range []webhook.Spec{{SessionID: &s.session}, {TaskID: new(string(s.session))}} {
		_, err := s.store.CreateWebhook(t.Context(), outsider, domain.NewID(), spec, []byte("sealed"))
		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), err)
	}
}

func TestClaimDeliveries_eachOnceAndFewOfAnEndpoint(t *testing.T) {
	t.Parallel()
	s := newSending(t)

	slow, quick := s.webhook(nil), s.webhook(func(w *webhook.Spec) { w.Events = []webhook.Event{webhook.ChatFailed} })
	for range 10 {
		s.ended(domain.FinishCompleted)
	}

	s.ended(domain.FinishFailed)
	due := s.claim(64)

	claimed := map[string]int{}
	for _, d := range due {
		claimed[d.WebhookID]++
	}

	require.Equal(t, map[string]int{slow.ID: 4, quick.ID: 1}, claimed)
	require.Empty(t, s.claim(64), "what an endpoint may have at once is under way")

	s.exec(`UPDATE webhook_deliveries SET claimed_until = now() WHERE id = $1`, due[0].ID)
	again := s.claim(64)
	require.Len(t, again, 1, "its process is gone")
	require.Equal(t, due[0].ID, again[0].ID, "the webhook-id is the same")
	require.Empty(t, s.record(due[0], refused))
	require.Empty(t, s.deliveriesWith(slow, due[0].ID).Attempts, "the claim was lost")
	s.record(again[0], taken)
	require.Equal(t, webhook.DeliveryDelivered, s.deliveriesWith(slow, due[0].ID).Status)
	require.NoError(t, s.store.ReleaseDelivery(t.Context(), due[1]))
	require.Len(t, s.claim(64), 2, "one in the place of each")
}

func (s sending) deliveriesWith(w webhook.Webhook, id string) webhook.Delivery {
	s.t.Helper()

	for _, d := range s.deliveries(w) {
		if d.ID == id {
			return d
		}
	}

	require.Fail(s.t, "no delivery "+id)

	return webhook.Delivery{}
}

// again makes the webhook's deliveries due.
func (s sending) due(w webhook.Webhook) {
	s.t.Helper()
	s.exec(`UPDATE webhooks SET retry_at = NULL WHERE id = $1`, w.ID)
	s.exec(`UPDATE webhook_deliveries SET next_attempt_at = now() WHERE webhook_id = $1`, w.ID)
}

func TestRecordAttempt_retriesUntilADayIsOver(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	w := s.webhook(nil)
	s.ended(domain.FinishCompleted)

	for attempt := 1; ; attempt++ {
		due := s.claim(64)
		require.Len(t, due, 1)
		require.Equal(t, attempt, due[0].Number)
		require.Empty(t, s.record(due[0], refused))
		require.Empty(t, s.claim(64), "it waits")
		now := s.deliveries(w)[0]
		require.Len(t, now.Attempts, attempt)
		require.Equal(t, "the endpoint answered 500", *now.Attempts[attempt-1].Error)

		if now.Status == webhook.DeliveryFailed {
			require.Equal(t, 11, attempt)
			require.Contains(t, *now.Error, "11 attempts failed")

			break
		}

		s.due(w)
	}

	again, err := s.store.RedeliverWebhook(t.Context(), s.owner, w.ID, s.deliveries(w)[0].ID)
	require.NoError(t, err)
	require.Equal(t, webhook.DeliveryPending, again.Status)

	for range 15 {
		s.due(w)

		if due := s.claim(64); len(due) == 1 {
			s.record(due[0], refused)
		}
	}

	last := s.deliveries(w)[0]
	require.Equal(t, 22, last.AttemptCount)
	require.Len(t, last.Attempts, webhook.MaxAttempts)
	require.Equal(t, 22, last.Attempts[len(last.Attempts)-1].Number)
}

func TestRecordAttempt_disablesWhatFailsForDays(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	failing, other := s.webhook(func(w *webhook.Spec) { w.Events = []webhook.Event{webhook.ChatCompleted} }),
		s.webhook(func(w *webhook.Spec) { w.Events = []webhook.Event{webhook.Disabled} })
	s.ended(domain.FinishCompleted)
	s.ended(domain.FinishCompleted)
	s.exec(`UPDATE webhooks SET failures = 9, failing_since = now() - interval '4 days' WHERE id = $1`, failing.ID)
	due := s.claim(64)
	require.Len(t, due, 1, "one attempt at a time where the last one failed")
	require.NotEmpty(t, s.record(due[0], refused))
	now, err := s.store.Webhook(t.Context(), s.owner, failing.ID)
	require.NoError(t, err)
	require.False(t, now.Enabled)
	require.Contains(t, *now.DisabledReason, "all 10 attempts since")

	for _, d := range s.deliveries(failing) {
		require.Equal(t, webhook.DeliveryFailed, d.Status)
	}

	require.Equal(t, webhook.Disabled, s.deliveries(other)[0].Event)

	enabled, err := s.store.ChangeWebhook(t.Context(), s.owner, failing.ID, func(w *webhook.Spec) error { w.Enabled = true; return nil })
	require.NoError(t, err)
	require.Zero(t, enabled.ConsecutiveFailures)
	require.Nil(t, enabled.DisabledReason)
	s.ended(domain.FinishCompleted)
	gone := s.claim(64)
	require.Len(t, gone, 2, "its own and the notice")

	for _, d := range gone {
		if d.WebhookID == failing.ID {
			require.Contains(t, s.record(d, webhook.Answer{StatusCode: 410, Error: "gone"}), "410")
		}
	}
}

func TestDeliveries_areBounded(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	w := s.webhook(nil)
	fill := func(n int, status string, age time.Duration) {
		s.exec(`INSERT INTO webhook_deliveries (id, webhook_id, event, body, status, finished_at)
			SELECT $1 || n, $2, 'chat.failed', '{}', $3, CASE WHEN $3 <> 'pending' THEN now() - $4::interval END
			    FROM generate_series(1, $5) n`,
			fmt.Sprintf("%s-%s-", status, age), w.ID, status, age, n)
	}
	fill(webhook.MaxPending, "pending", 0)
	s.ended(domain.FinishCompleted)
	crowded, n, err := s.store.WebhookDeliveries(t.Context(), s.owner, w.ID, webhook.DeliveryFailed, "", 0, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Contains(t, *crowded[0].Error, "too many deliveries")

	fill(3, "delivered", 40*24*time.Hour)
	removed, err := s.store.PruneDeliveries(t.Context(), 30*24*time.Hour, 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, removed)
	fill(webhook.MaxDeliveries, "delivered", time.Hour)

	removed, err = s.store.PruneCrowdedDeliveries(t.Context(), 500)
	require.NoError(t, err)
	require.EqualValues(t, 2, removed, "the oldest, and none that waits")
}
