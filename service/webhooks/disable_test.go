package webhooks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
)

// An event that is written while its webhook is disabled leaves no delivery that waits.
func TestStore_ChangeWebhook_disablesDuringEvent(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	w := s.webhook(nil)

	tx, err := s.db.Pool.Begin(t.Context())
	require.NoError(t, err)

	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()

	require.NoError(t, notify.ChatEnded(t.Context(), tx, s.session, s.chat, domain.ChatEnded{
		Status: domain.FinishCompleted.Status(), FinishReason: domain.FinishCompleted,
	}))

	disabled := make(chan error, 1)

	go func() {
		_, err := s.store.ChangeWebhook(t.Context(), s.owner, w.ID, func(spec *webhook.Spec) error {
			spec.Enabled = false
			return nil
		})
		disabled <- err
	}()

	blocked := `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid)))`

	require.Eventually(t, func() bool {
		var waits bool
		return len(disabled) > 0 || s.db.Pool.QueryRow(t.Context(), blocked, int32(tx.Conn().PgConn().PID())).Scan(&waits) == nil && waits
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-disabled)
	require.Equal(t, webhook.DeliveryFailed, s.deliveries(w)[0].Status)
}

// What waits for a disabled webhook all the same is failed by the periodic job.
func TestStore_PruneDeliveries_failsThoseOfDisabledWebhooks(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	w := s.webhook(nil)
	s.ended(domain.FinishCompleted)
	s.exec(`UPDATE webhooks SET enabled = false`)

	_, err := s.store.PruneDeliveries(t.Context(), time.Hour, 100)
	require.NoError(t, err)
	require.Equal(t, webhook.DeliveryFailed, s.deliveries(w)[0].Status)
}
