package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// stopWork flags everything that works in the name of a user, in the transaction that closes
// the account. Reconcilers carry out the flags and repeat them: running chats and tasks are
// stopped, runs are cancelled. Nothing new starts, because each claim looks at users.closed.
// StopClosedSessions ends what emits events: queued chats and chats that wait for input.
func stopWork(ctx context.Context, tx pgx.Tx, userID string) error {
	var batch pgx.Batch

	// The lock of a session comes before those of its chats and tasks, as everywhere.
	batch.Queue(`
		SELECT 1 FROM sessions s
		WHERE  s.owner_id = $1 AND (s.active_chat_id IS NOT NULL
		OR     EXISTS (SELECT 1 FROM background_tasks b WHERE b.session_id = s.id AND b.status = 'running'))
		ORDER  BY s.id FOR UPDATE`, userID)
	batch.Queue(`
		UPDATE chats c SET stop_requested = true FROM sessions s
		WHERE  s.id = c.session_id AND s.owner_id = $1 AND c.state = 'running' AND NOT c.stop_requested`, userID)
	batch.Queue(`
		UPDATE background_tasks b SET stop_requested = true FROM sessions s
		WHERE  s.id = b.session_id AND s.owner_id = $1 AND b.status = 'running' AND NOT b.stop_requested`, userID)
	batch.Queue(`UPDATE dag_runs SET cancel = true WHERE owner_id = $1 AND finished_at IS NULL`, userID)
	batch.Queue(`
		UPDATE scheduled_runs r SET cancel_requested = true, error_code = 'cancelled' FROM scheduled_tasks t
		WHERE  t.id = r.task_id AND t.owner_id = $1 AND r.state <> 'ended'`, userID)
	batch.Queue(`
		UPDATE issue_runs SET cancel_requested = true, reason_code = 'stopped'
		WHERE  owner_id = $1 AND status IN ('dispatched', 'running') AND NOT cancel_requested`, userID)

	return tx.SendBatch(ctx, &batch).Close()
}

// IdentityAccounts returns accounts of people of an issuer, deleted ones left out, in the
// order of their users' ids and after the given one, at most limit.
func (a *Store) IdentityAccounts(ctx context.Context, issuer, after string, limit int) ([]domain.IdentityAccount, error) {
	rows, _ := a.db.Pool.Query(ctx, `
		SELECT id, subject, disabled_at IS NULL AS open, identity_administrator AS administrator
		FROM   users WHERE issuer = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3`, issuer, after, limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.IdentityAccount])

	return found, pg.Fault("list accounts of the identity service", err)
}

// FollowIdentityAccount takes over what the identity service says of an account, and reports
// whether anything changed. A closed account loses what works in its name; its scheduled
// tasks, webhooks and apps pause until it is open again. A right to administer that was
// granted here stays; one that the service gave ends with it.
func (a *Store) FollowIdentityAccount(ctx context.Context, userID string, open, administrator bool) (changed bool, err error) {
	err = a.db.InTx(ctx, func(tx pgx.Tx) error {
		var wasOpen, administered bool

		changed = false

		err := tx.QueryRow(ctx, `
			SELECT disabled_at IS NULL, identity_administrator FROM users WHERE id = $1 AND deleted_at IS NULL FOR UPDATE`, userID).
			Scan(&wasOpen, &administered)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		demoted := open && administered && !administrator
		if err != nil || wasOpen == open && !demoted {
			return err
		}

		changed = true

		_, err = tx.Exec(ctx, `
			UPDATE users
			SET    disabled_at = CASE WHEN $2 THEN NULL ELSE coalesce(disabled_at, now()) END,
			       administrator = administrator AND NOT $3, identity_administrator = identity_administrator AND NOT $3
			WHERE  id = $1`, userID, open, demoted)
		if err != nil {
			return err
		}

		if wasOpen && !open {
			err = stopWork(ctx, tx, userID)
		}

		if err != nil {
			return err
		}

		return auditFollowed(ctx, tx, userID, wasOpen, open, demoted)
	})

	return changed, pg.Fault("follow an account of the identity service", err)
}

// Actions of the audit trail for what the identity service does to an account.
const (
	userActionDisable = "user.disable"
	userActionEnable  = "user.enable"
)

// auditFollowed records what the identity service did to an account.
func auditFollowed(ctx context.Context, tx pgx.Tx, userID string, wasOpen, open, demoted bool) error {
	var actions []string

	switch {
	case wasOpen && !open:
		actions = append(actions, userActionDisable)
	case !wasOpen && open:
		actions = append(actions, userActionEnable)
	}

	if demoted {
		actions = append(actions, "admin.revoke")
	}

	for _, action := range actions {
		_, err := tx.Exec(ctx, `
			INSERT INTO audit (id, actor_id, action, target, details)
			SELECT $1, '', $2, id, jsonb_build_object('issuer', issuer) FROM users WHERE id = $3`, domain.NewID(), action, userID)
		if err != nil {
			return err
		}
	}

	return nil
}
