package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

const deliveryColumns = `
	d.id, d.webhook_id, d.event, d.status, d.body, d.error, d.attempt_count, d.attempts,
	CASE WHEN d.status = 'pending' THEN d.next_attempt_at END, d.created_at, d.finished_at`

func scanDelivery(row pgx.CollectableRow) (webhook.Delivery, error) {
	var (
		d    webhook.Delivery
		body string
	)

	err := row.Scan(&d.ID, &d.WebhookID, &d.Event, &d.Status, &body, &d.Error, &d.AttemptCount, &d.Attempts,
		&d.NextAttemptAt, &d.CreatedAt, &d.FinishedAt)
	d.Request = json.RawMessage(body)

	return d, err
}

// WebhookDeliveries lists a page of the deliveries of a user's webhook, the newest first, and
// returns their total. An empty status or event selects all.
func (s *Store) WebhookDeliveries(
	ctx context.Context, ownerID, webhookID string, status webhook.DeliveryStatus, event webhook.Event, offset, limit int,
) (page []webhook.Delivery, total int, err error) {
	if _, err := s.Webhook(ctx, ownerID, webhookID); err != nil {
		return nil, 0, err
	}

	const those = ` FROM webhook_deliveries d WHERE d.webhook_id = @id AND (@status = '' OR d.status = @status)
		AND (@event = '' OR d.event = @event)`

	args := pgx.NamedArgs{"id": webhookID, "status": string(status), "event": string(event), "offset": offset, "limit": limit}
	if err := s.db.Pool.QueryRow(ctx, `SELECT count(*)`+those, args).Scan(&total); err != nil {
		return nil, 0, pg.Fault("count deliveries", err)
	}

	rows, _ := s.db.Pool.Query(ctx, `SELECT `+deliveryColumns+those+` ORDER BY d.id DESC OFFSET @offset LIMIT @limit`, args)
	page, err = pgx.CollectRows(rows, scanDelivery)

	return page, total, pg.Fault("list deliveries", err)
}

// RedeliverWebhook makes a delivery due again under its id, with all its attempts. The error for
// a disabled webhook is webhook_disabled.
func (s *Store) RedeliverWebhook(ctx context.Context, ownerID, webhookID, deliveryID string) (again webhook.Delivery, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		w, err := oneWebhook(ctx, tx, webhookID, `
			SELECT `+webhookColumns+` FROM webhooks WHERE id = @id AND owner_id = @owner FOR SHARE`,
			pgx.NamedArgs{"id": webhookID, "owner": ownerID})
		if err != nil {
			return err
		}

		if !w.Enabled {
			return domain.Newf(domain.Conflict, "webhook_disabled", "webhook %s is disabled; enable it first", webhookID)
		}

		rows, _ := tx.Query(ctx, `
			UPDATE webhook_deliveries d
			SET    status = 'pending', error = NULL, tries = 0, next_attempt_at = now(), finished_at = NULL
			WHERE  d.id = $1 AND d.webhook_id = $2 RETURNING `+deliveryColumns, deliveryID, webhookID)

		again, err = pgx.CollectExactlyOneRow(rows, scanDelivery)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.Newf(domain.NotFound, "delivery_not_found", "delivery %s does not exist", deliveryID)
		}

		return err
	})

	return again, pg.Fault("redeliver", err)
}

const (
	// claimTime is how long a process owns an attempt. It must exceed requestTime and recordTime.
	claimTime = time.Minute
	// maxPerWebhook, maxFailing and maxPerOwner bound the concurrent attempts of a webhook, of a
	// webhook whose last attempt failed, and of all webhooks of a user, so that an endpoint that
	// does not answer leaves slots for others.
	maxPerWebhook, maxFailing, maxPerOwner = 4, 1, 8
)

// ClaimDeliveries claims up to limit attempts that are due, the oldest first. It
// skips from one webhook with pending deliveries to the next by the index, and reads rows only
// of endpoints that may be called now: an endpoint that is down costs one row, not its queue. A
// due time on the webhook's row would cost a lock on that row in each transaction of an event.
func (s *Store) ClaimDeliveries(ctx context.Context, limit int) ([]webhook.DueDelivery, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		WITH RECURSIVE waiting AS (
			(SELECT webhook_id AS id FROM webhook_deliveries WHERE status = 'pending' ORDER BY webhook_id LIMIT 1)
			UNION ALL
			SELECT (SELECT d.webhook_id FROM webhook_deliveries d
			        WHERE  d.status = 'pending' AND d.webhook_id > waiting.id ORDER BY d.webhook_id LIMIT 1)
			FROM   waiting WHERE waiting.id IS NOT NULL),
		busy AS MATERIALIZED (
			SELECT d.webhook_id AS id, w.owner_id, count(*) AS n
			FROM   webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
			WHERE  d.status = 'pending' AND d.claimed_until > now() GROUP BY 1, 2),
		due AS (
			SELECT d.id, d.next_attempt_at, w.owner_id, row_number() OVER (PARTITION BY w.owner_id
			    ORDER BY d.next_attempt_at, d.id) AS place
			FROM   waiting JOIN webhooks w ON w.id = waiting.id AND w.enabled AND (w.retry_at IS NULL OR w.retry_at <= now())
			JOIN   users o ON o.id = w.owner_id AND NOT o.closed -- those of a closed account wait
			CROSS  JOIN LATERAL (
				SELECT id, next_attempt_at FROM webhook_deliveries
				WHERE  webhook_id = w.id AND status = 'pending' AND next_attempt_at <= now()
				    AND (claimed_until IS NULL OR claimed_until <= now())
				ORDER  BY next_attempt_at, id
				LIMIT  greatest(0, CASE WHEN w.failing_since IS NULL THEN @each::int ELSE @failing::int END
				                   - coalesce((SELECT n FROM busy WHERE busy.id = w.id), 0))) d),
		chosen AS (
			SELECT id FROM due
			WHERE  place + coalesce((SELECT sum(n) FROM busy WHERE busy.owner_id = due.owner_id), 0) <= @owner::int
			ORDER  BY next_attempt_at, id LIMIT @limit),
		locked AS (
			SELECT d.id FROM webhook_deliveries d
			WHERE  d.id IN (SELECT id FROM chosen) AND d.status = 'pending' AND (d.claimed_until IS NULL OR d.claimed_until <= now())
			FOR    UPDATE SKIP LOCKED)
		UPDATE webhook_deliveries d SET claim = claim + 1, claimed_until = now() + @time::interval
		FROM   locked, webhooks w
		WHERE  d.id = locked.id AND w.id = d.webhook_id
		RETURNING d.id, d.webhook_id, d.claim, w.url, d.body, d.attempt_count + 1, w.sealed,
		          CASE WHEN w.previous_until > now() THEN w.previous_sealed END, w.previous_until`,
		pgx.NamedArgs{"limit": limit, "time": claimTime, "each": maxPerWebhook, "failing": maxFailing, "owner": maxPerOwner})
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (webhook.DueDelivery, error) {
		var d webhook.DueDelivery

		err := row.Scan(
			&d.ID,
			&d.WebhookID,
			&d.Claim,
			&d.URL,
			&d.Body,
			&d.Number,
			&d.Secrets.Current,
			&d.Secrets.Previous,
			&d.Secrets.PreviousUntil,
		)

		return d, err
	})

	return due, pg.Fault("claim deliveries", err)
}

// RecordAttempt records the outcome of a claimed attempt, unless another process has claimed it
// since, and plans the next attempt. It returns the reason if the outcome disabled the webhook.
func (s *Store) RecordAttempt(ctx context.Context, due webhook.DueDelivery, answer webhook.Answer) (disabled string, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		disabled = ""
		// The webhook first: who deletes one locks it before its deliveries.
		var (
			failures int
			failing  *time.Time
			now      time.Time
		)

		err := tx.QueryRow(ctx, `
			SELECT failures, failing_since, clock_timestamp() FROM webhooks WHERE id = $1 FOR NO KEY UPDATE`, due.WebhookID).
			Scan(&failures, &failing, &now)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // deleted in the meantime
		}

		if err != nil {
			return err
		}

		recorded, err := recordAnswer(ctx, tx, due, answer)
		if err != nil || !recorded {
			return err
		}

		if answer.Error == "" {
			_, err := tx.Exec(ctx, `
				UPDATE webhooks SET failures = 0, failing_since = NULL, retry_at = NULL, last_delivery_at = now()
				    WHERE id = $1`, due.WebhookID)

			return err
		}

		if failing == nil {
			failing = &now
		}

		failures++
		if _, err := tx.Exec(ctx, `
			UPDATE webhooks SET failures = $2, failing_since = $3, retry_at = now() + $4::interval WHERE id = $1`,
			due.WebhookID, failures, failing, webhook.EndpointPause(failures)); err != nil {
			return err
		}

		switch {
		case answer.StatusCode == webhook.StatusGone:
			disabled = "the endpoint answered 410: it wants no more events"
		case now.Sub(*failing) >= webhook.FailsFor && failures >= webhook.FailsOften:
			disabled = fmt.Sprintf(
				"all %d attempts since %s failed, the last one: %s",
				failures,
				failing.UTC().Format(time.RFC3339),
				answer.Error,
			)
		default:
			return nil
		}

		return disable(ctx, tx, due.WebhookID, disabled)
	})

	return disabled, pg.Fault("record an attempt", err)
}

// recordAnswer adds the attempt to its delivery, and ends the delivery or plans the next
// attempt. It returns false when the claim was lost.
func recordAnswer(ctx context.Context, tx pgx.Tx, due webhook.DueDelivery, answer webhook.Answer) (recorded bool, err error) {
	var tries int

	err = tx.QueryRow(ctx, `
		SELECT tries + 1 FROM webhook_deliveries WHERE id = $1 AND claim = $2 AND status = 'pending'
		    FOR UPDATE`, due.ID, due.Claim).Scan(&tries)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	attempt := webhook.Attempt{
		Number:     due.Number,
		At:         answer.At,
		DurationMS: answer.Duration.Milliseconds(),
		StatusCode: answer.StatusCode,
		Response:   answer.Response,
	}
	status, reason, pause := webhook.DeliveryDelivered, "", time.Duration(0)

	if answer.Error != "" {
		attempt.Error = &answer.Error

		var more bool

		status = webhook.DeliveryPending
		if pause, more = webhook.NextDelivery(tries, answer.RetryAfter); !more {
			status, reason = webhook.DeliveryFailed, fmt.Sprintf("%d attempts failed, the last one: %s", tries, answer.Error)
		}
	}

	_, err = tx.Exec(ctx, `
		UPDATE webhook_deliveries
		SET    status = @status, error = nullif(@reason, ''), attempt_count = @number, tries = @tries, claimed_until = NULL,
		       attempts = CASE WHEN jsonb_array_length(attempts) >= @kept THEN attempts - 0
		           ELSE attempts END || jsonb_build_array(@attempt::jsonb),
		       next_attempt_at = now() + @pause::interval, finished_at = CASE WHEN @status <> 'pending' THEN now() END
		WHERE  id = @id`,
		pgx.NamedArgs{
			"id": due.ID, "status": string(status), "reason": reason, "number": due.Number, "tries": tries, "attempt": attempt,
			"pause": pause, "kept": webhook.MaxAttempts,
		})

	return err == nil, err
}

// disable disables a webhook that fails, fails its pending deliveries, and notifies the other
// webhooks of its owner.
func disable(ctx context.Context, tx pgx.Tx, webhookID, reason string) error {
	var owner, description string
	if err := tx.QueryRow(ctx, `
		UPDATE webhooks SET enabled = false, disabled_reason = $2, updated_at = now() WHERE id = $1 RETURNING owner_id, description`,
		webhookID, reason).Scan(&owner, &description); err != nil {
		return err
	}

	if err := failPending(ctx, tx, webhookID); err != nil {
		return err
	}

	rows, _ := tx.Query(ctx, `
		SELECT id FROM webhooks WHERE owner_id = $1 AND enabled AND events && ARRAY[$2, '*'] ORDER BY id FOR KEY SHARE`,
		owner, string(webhook.Disabled))

	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(others) == 0 {
		return err
	}

	return notify.Deliver(ctx, tx, others, nil, webhook.Disabled, webhook.Stopped{
		WebhookID: webhookID, Description: description, Reason: reason,
	})
}

// failPending fails the pending deliveries of a webhook that is disabled.
func failPending(ctx context.Context, tx pgx.Tx, webhookID string) error {
	_, err := tx.Exec(ctx, `
		UPDATE webhook_deliveries SET status = 'failed', error = 'the webhook was disabled', claimed_until = NULL, finished_at = now()
		WHERE  webhook_id = $1 AND status = 'pending'`, webhookID)

	return err
}

// ReleaseDelivery releases a claimed attempt that was not made.
func (s *Store) ReleaseDelivery(ctx context.Context, due webhook.DueDelivery) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE webhook_deliveries SET claimed_until = NULL WHERE id = $1 AND claim = $2 AND status = 'pending'`, due.ID, due.Claim)

	return pg.Fault("release a delivery", err)
}

// PruneDeliveries deletes up to limit deliveries that finished more than age ago, and returns
// how many. It also fails pending deliveries of disabled webhooks.
func (s *Store) PruneDeliveries(ctx context.Context, age time.Duration, limit int) (int64, error) {
	if _, err := s.db.Pool.Exec(ctx, `
		UPDATE webhook_deliveries d SET status = 'failed', error = 'the webhook was disabled', claimed_until = NULL, finished_at = now()
		FROM   webhooks w WHERE w.id = d.webhook_id AND NOT w.enabled AND d.status = 'pending'`); err != nil {
		return 0, pg.Fault("fail deliveries of disabled webhooks", err)
	}

	return s.db.Prune(ctx, "prune deliveries", `
		DELETE FROM webhook_deliveries WHERE id = ANY (ARRAY (
			SELECT id FROM webhook_deliveries WHERE status <> 'pending' AND finished_at < now() - $2::interval LIMIT $1))`, limit, age)
}

// PruneCrowdedDeliveries deletes the oldest finished deliveries of webhooks that have more than
// webhook.MaxDeliveries.
func (s *Store) PruneCrowdedDeliveries(ctx context.Context, limit int) (int64, error) {
	return s.db.Prune(ctx, "prune deliveries", `
		DELETE FROM webhook_deliveries WHERE id = ANY (ARRAY (
			SELECT d.id FROM webhooks w CROSS JOIN LATERAL (
				SELECT id FROM webhook_deliveries WHERE webhook_id = w.id AND status <> 'pending' ORDER BY id DESC OFFSET $2) d
			LIMIT $1))`, limit, webhook.MaxDeliveries)
}
