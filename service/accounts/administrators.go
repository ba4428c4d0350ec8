package accounts

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// Administrators lists the administrators, oldest first.
func (a *Store) Administrators(ctx context.Context) ([]domain.User, error) {
	rows, _ := a.db.Pool.Query(ctx, `SELECT `+userColumns+` FROM users WHERE administrator AND deleted_at IS NULL ORDER BY id`)
	users, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.User])

	return users, pg.Fault("list administrators", err)
}

// SetAdministrator makes the user an administrator, or takes the right back. The
// last administrator keeps it.
func (a *Store) SetAdministrator(ctx context.Context, userID string, administrator bool) error {
	err := a.db.InTx(ctx, func(tx pgx.Tx) error {
		administrators, err := lockAdministrators(ctx, tx)
		if err != nil {
			return err
		}

		if !administrator && slices.Equal(administrators, []string{userID}) {
			return lastAdministrator()
		}

		if !administrator && !slices.Contains(administrators, userID) {
			return domain.Newf(domain.NotFound, "user_not_found", "user %s is not an administrator", userID)
		}

		tag, err := tx.Exec(ctx, `UPDATE users SET administrator = $2 WHERE id = $1 AND deleted_at IS NULL`, userID, administrator)
		if err == nil && tag.RowsAffected() == 0 {
			return userNotFound(userID)
		}

		return err
	})

	return pg.Fault("set administrator", err)
}

// lockAdministrators locks every administrator's row, in one order, so that two
// removals at once cannot each think that the other one stays.
func lockAdministrators(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, _ := tx.Query(ctx, `SELECT id FROM users WHERE administrator AND deleted_at IS NULL ORDER BY id FOR UPDATE`)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func lastAdministrator() *domain.Error {
	return domain.Newf(domain.Conflict, "last_administrator", "the last administrator cannot be removed")
}

// AuditTrail returns a page of who used which privilege on what, newest first, and
// how many records fit the query.
func (a *Store) AuditTrail(ctx context.Context, q domain.AuditQuery) ([]domain.AuditRecord, int, error) {
	const where = `
		FROM audit a
		WHERE (@actor = '' OR a.actor_id = @actor) AND (@action = '' OR a.action = @action) AND (@target = '' OR a.target = @target)`

	args := pgx.NamedArgs{"actor": q.ActorID, "action": q.Action, "target": q.Target, "limit": q.Limit, "offset": q.Offset}

	var (
		records []domain.AuditRecord
		total   int
		batch   pgx.Batch
	)
	batch.Queue(`
		SELECT a.id, a.actor_id, coalesce((SELECT u.username FROM users u WHERE u.id = a.actor_id), '') AS actor_name,
		       a.action, a.target, a.details, a.created_at`+where+`
		ORDER BY a.id DESC LIMIT @limit OFFSET @offset`, args).
		Query(func(rows pgx.Rows) (err error) {
			records, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.AuditRecord])
			return err
		})
	batch.Queue(`SELECT count(*)`+where, args).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return records, total, pg.Fault("read audit trail", a.db.Pool.SendBatch(ctx, &batch).Close())
}

// TokenStates says of people as another system knows them whether they can sign
// in here, and whether what is known of them has changed.
func (a *Store) TokenStates(ctx context.Context, people []domain.ExternalUser) ([]domain.TokenState, error) {
	out := make([]domain.TokenState, len(people))

	var batch pgx.Batch

	for i, p := range people {
		out[i] = domain.TokenState{Sub: p.Sub, Email: p.Email, Message: "no account of this service fits"}
		batch.Queue(`
			SELECT u.name, u.email, EXISTS (
			       SELECT 1 FROM api_keys k WHERE k.user_id = u.id AND k.revoked_at IS NULL
			           AND (k.expires_at IS NULL OR k.expires_at > now()))
			FROM   users u
			WHERE  u.deleted_at IS NULL AND (u.id = @sub OR (@email <> '' AND lower(u.email) = lower(@email)))
			ORDER  BY u.id = @sub DESC, u.id LIMIT 1`, pgx.NamedArgs{"sub": p.Sub, "email": p.Email}).
			Query(func(rows pgx.Rows) error {
				var name, email string

				_, err := pgx.ForEachRow(rows, []any{&name, &email, &out[i].OK}, func() error {
					out[i].Changed = p.Name != "" && p.Name != name || p.Email != "" && p.Email != email

					out[i].Message = "the account has a valid key"
					if !out[i].OK {
						out[i].Message = "the account has no valid key"
					}

					return nil
				})

				return err
			})
	}

	return out, pg.Fault("check token states", a.db.Pool.SendBatch(ctx, &batch).Close())
}
