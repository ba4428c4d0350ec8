package apps

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/app"
	"everloop/infra/postgres/pg"
)

// KeepCopy counts a copy before it is stored. It fails with app_budget when the apps and
// checkpoints of its owner would take more than budget bytes; 0: no bound. It locks the sum of
// the owner, so that copies which are made concurrently share the budget.
func (s *Store) KeepCopy(ctx context.Context, copied app.Copy, budget int64) error {
	return pg.Fault("announce the copy of an app", pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('app copies/' || $1, 0))`, copied.OwnerID); err != nil {
			return err
		}

		var used int64

		stored := tx.QueryRow(ctx, `
			SELECT (SELECT coalesce(sum(bytes), 0) FROM app_copies WHERE owner_id = $1)::bigint
			     + (SELECT coalesce(sum(bytes), 0) FROM checkpoint_usage WHERE owner_id = $1)::bigint`, copied.OwnerID)
		if err := stored.Scan(&used); err != nil {
			return err
		}

		if budget > 0 && used+copied.Bytes > budget {
			return domain.Newf(domain.TooLarge, app.CodeBudget,
				"your apps and checkpoints take %d bytes of %d, and this one needs %d: unpublish apps or delete sessions",
				used, budget, copied.Bytes)
		}

		_, err := tx.Exec(ctx, `INSERT INTO app_copies (name, app_id, owner_id, bytes) VALUES ($1, $2, $3, $4)`,
			copied.Name, copied.AppID, copied.OwnerID, copied.Bytes)

		return err
	}))
}

// FinishApp makes a copy the one that is served, and returns the id of the previous one. It
// fails with app_not_found when the app was stopped in the meantime.
func (s *Store) FinishApp(ctx context.Context, copied app.Copy, copyID string) (published app.App, before string, err error) {
	err = pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT copy_id FROM apps WHERE id = $1 AND status <> 'stopped' FOR UPDATE`, copied.AppID).Scan(&before)
		if errors.Is(err, pgx.ErrNoRows) {
			return app.NotFound()
		}

		if err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `UPDATE app_copies SET bytes = $2 WHERE name = $1`, copied.Name, copied.Bytes); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			UPDATE apps SET status = 'live', copy_id = $2, published_at = now(), updated_at = now()
			WHERE  id = $1 RETURNING `+appColumns, copied.AppID, copyID)
		published, err = pgx.CollectExactlyOneRow(rows, scanApp)

		return err
	})

	return published, before, pg.Fault("finish app", err)
}

// LeftCopies returns the names of copies of at least this age that no app serves. The id of a
// copy is its name, a point, and more.
func (s *Store) LeftCopies(ctx context.Context, age time.Duration, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT k.name FROM app_copies k
		WHERE  k.made_at < now() - $1::interval
		AND    NOT EXISTS (SELECT FROM apps a JOIN users u ON u.id = a.owner_id
		                   WHERE  a.id = k.app_id AND a.status <> 'stopped' AND u.deleted_at IS NULL
		                   AND    split_part(a.copy_id, '.', 1) = k.name)
		ORDER BY k.made_at LIMIT $2`, age, limit)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return names, pg.Fault("find copies of apps that are left", err)
}

// ForgetCopy ends the count of a copy whose objects were deleted.
func (s *Store) ForgetCopy(ctx context.Context, name string) error {
	_, err := s.db.Pool.Exec(ctx, `DELETE FROM app_copies WHERE name = $1`, name)
	return pg.Fault("remove the row of an app's copy", err)
}
