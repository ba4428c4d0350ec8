package webhooks

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/infra/postgres/pg"
)

// Store reads and writes webhooks and their deliveries. Webhooks of other users do not exist for
// a caller: webhook_not_found. The store keeps secrets sealed.
type Store struct{ db *pg.DB }

// NewStore returns a new store on a database.
func NewStore(db *pg.DB) *Store { return &Store{db} }

const webhookColumns = `
	id, url, description, events, only_session, only_task, enabled, disabled_reason, failures, failing_since, last_delivery_at,
	CASE WHEN previous_until > now() THEN previous_until END, created_at, updated_at`

func scanWebhook(row pgx.CollectableRow) (webhook.Webhook, error) {
	var w webhook.Webhook

	err := row.Scan(&w.ID, &w.URL, &w.Description, &w.Events, &w.SessionID, &w.TaskID, &w.Enabled, &w.DisabledReason,
		&w.ConsecutiveFailures, &w.FailingSince, &w.LastDeliveryAt, &w.PreviousSecretUntil, &w.CreatedAt, &w.UpdatedAt)

	return w, err
}

func oneWebhook(ctx context.Context, q pg.Queryer, id, sql string, args pgx.NamedArgs) (webhook.Webhook, error) {
	rows, _ := q.Query(ctx, sql, args)

	w, err := pgx.CollectExactlyOneRow(rows, scanWebhook)
	if errors.Is(err, pgx.ErrNoRows) {
		err = webhookNotFound(id)
	}

	return w, err
}

func webhookNotFound(id string) error {
	return domain.Newf(domain.NotFound, "webhook_not_found", "webhook %s does not exist", id)
}

func specArgs(id, ownerID string, spec webhook.Spec) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": id, "owner": ownerID, "url": spec.URL, "description": spec.Description, "events": spec.Events,
		"session": spec.SessionID, "task": spec.TaskID, "enabled": spec.Enabled,
	}
}

// CreateWebhook stores a webhook under the id that its secret was sealed for. The error for a
// user who has webhook.MaxWebhooks is webhook_limit.
func (s *Store) CreateWebhook(
	ctx context.Context,
	ownerID, id string,
	spec webhook.Spec,
	sealed []byte,
) (made webhook.Webhook, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		// The row of the user serialises creations, so that they count each other.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE`, ownerID); err != nil {
			return err
		}

		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM webhooks WHERE owner_id = $1`, ownerID).Scan(&count); err != nil {
			return err
		}

		if count >= webhook.MaxWebhooks {
			return domain.Newf(domain.Conflict, "webhook_limit", "a user may have %d webhooks at most", webhook.MaxWebhooks)
		}

		if err := checkFilters(ctx, tx, ownerID, spec); err != nil {
			return err
		}

		args := specArgs(id, ownerID, spec)
		args["sealed"] = sealed
		made, err = oneWebhook(ctx, tx, id, `
			INSERT INTO webhooks (id, owner_id, url, description, events, only_session, only_task, enabled, sealed)
			VALUES (@id, @owner, @url, @description, @events, @session, @task, @enabled, @sealed) RETURNING `+webhookColumns, args)

		return err
	})

	return made, pg.Fault("create webhook", err)
}

// checkFilters rejects a session or a task of another user.
func checkFilters(ctx context.Context, tx pgx.Tx, ownerID string, spec webhook.Spec) error {
	var session, task bool

	err := tx.QueryRow(ctx, `
		SELECT $2::text IS NULL OR EXISTS (SELECT 1 FROM sessions WHERE id = $2 AND owner_id = $1 AND deleted_at IS NULL),
		       $3::text IS NULL OR EXISTS (SELECT 1 FROM scheduled_tasks WHERE id = $3 AND owner_id = $1 AND deleted_at IS NULL)`,
		ownerID, spec.SessionID, spec.TaskID).Scan(&session, &task)
	switch {
	case err != nil:
		return err
	case !session:
		return domain.Invalidf("body.session_id", "is not a session of yours")
	case !task:
		return domain.Invalidf("body.task_id", "is not a scheduled task of yours")
	}

	return nil
}

// Webhooks lists the webhooks of a user, the newest first.
func (s *Store) Webhooks(ctx context.Context, ownerID string) ([]webhook.Webhook, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE owner_id = $1 ORDER BY id DESC`, ownerID)
	list, err := pgx.CollectRows(rows, scanWebhook)

	return list, pg.Fault("list webhooks", err)
}

// Webhook reads one webhook of a user.
func (s *Store) Webhook(ctx context.Context, ownerID, id string) (webhook.Webhook, error) {
	w, err := oneWebhook(ctx, s.db.Pool, id, `
		SELECT `+webhookColumns+` FROM webhooks WHERE id = @id AND owner_id = @owner`, pgx.NamedArgs{"id": id, "owner": ownerID})

	return w, pg.Fault("read webhook", err)
}

// ChangeWebhook changes the fields of a webhook by change, under its lock. A webhook that is
// enabled or gets another address starts without failures. Pending deliveries of a webhook that
// is disabled fail.
func (s *Store) ChangeWebhook(
	ctx context.Context,
	ownerID, id string,
	change func(*webhook.Spec) error,
) (changed webhook.Webhook, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		was, err := oneWebhook(ctx, tx, id, `
			SELECT `+webhookColumns+` FROM webhooks WHERE id = @id AND owner_id = @owner FOR NO KEY UPDATE`,
			pgx.NamedArgs{"id": id, "owner": ownerID})
		if err != nil {
			return err
		}

		spec := was.Spec
		if err := change(&spec); err != nil {
			return err
		}

		asked := webhook.Spec{}
		if !same(spec.SessionID, was.SessionID) {
			asked.SessionID = spec.SessionID
		}

		if !same(spec.TaskID, was.TaskID) {
			asked.TaskID = spec.TaskID
		}

		if err := checkFilters(ctx, tx, ownerID, asked); err != nil {
			return err
		}

		if was.Enabled && !spec.Enabled {
			if err := failPending(ctx, tx, id); err != nil {
				return err
			}
		}

		args := specArgs(id, ownerID, spec)
		args["fresh"] = spec.Enabled && !was.Enabled || spec.URL != was.URL
		changed, err = oneWebhook(ctx, tx, id, `
			UPDATE webhooks
			SET    url = @url, description = @description, events = @events, only_session = @session, only_task = @task, enabled = @enabled,
			       disabled_reason = CASE WHEN @enabled THEN NULL ELSE disabled_reason END,
			       failures = CASE WHEN @fresh THEN 0 ELSE failures END,
			       failing_since = CASE WHEN @fresh THEN NULL ELSE failing_since END,
			       retry_at = CASE WHEN @fresh THEN NULL ELSE retry_at END, updated_at = now()
			WHERE  id = @id AND owner_id = @owner RETURNING `+webhookColumns, args)

		return err
	})

	return changed, pg.Fault("change webhook", err)
}

func same[T ~string](a, b *T) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// RotateWebhookSecret replaces the secret of a webhook. The previous one also signs for overlapS
// seconds.
func (s *Store) RotateWebhookSecret(ctx context.Context, ownerID, id string, sealed []byte, overlapS int) (webhook.Webhook, error) {
	w, err := oneWebhook(ctx, s.db.Pool, id, `
		UPDATE webhooks
		SET    previous_sealed = CASE WHEN @overlap > 0 THEN sealed END,
		       previous_until = CASE WHEN @overlap > 0 THEN now() + make_interval(secs => @overlap) END,
		       sealed = @sealed, updated_at = now()
		WHERE  id = @id AND owner_id = @owner RETURNING `+webhookColumns,
		pgx.NamedArgs{"id": id, "owner": ownerID, "sealed": sealed, "overlap": overlapS})

	return w, pg.Fault("rotate the secret of a webhook", err)
}

// DeleteWebhook deletes a webhook and its deliveries, also pending ones.
func (s *Store) DeleteWebhook(ctx context.Context, ownerID, id string) error {
	tag, err := s.db.Pool.Exec(ctx, `DELETE FROM webhooks WHERE id = $1 AND owner_id = $2`, id, ownerID)
	if err == nil && tag.RowsAffected() == 0 {
		err = webhookNotFound(id)
	}

	return pg.Fault("delete webhook", err)
}
