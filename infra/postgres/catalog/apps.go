package catalog

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain/app"
	"everloop/infra/postgres/pg"
)

// appColumns give an app. One that has been building for long was lost with its
// process.
const appColumns = `id, owner_id, session_id, working_dir, name,
	CASE WHEN status = 'building' AND updated_at < now() - interval '10 minutes' THEN 'failed' ELSE status END, copy_id, published_at`

func scanApp(row pgx.CollectableRow) (app.App, error) {
	var a app.App
	return a, row.Scan(&a.ID, &a.OwnerID, &a.SessionID, &a.WorkingDir, &a.Name, &a.Status, &a.CopyID, &a.PublishedAt)
}

func (c *Store) oneApp(ctx context.Context, what, sql string, args pgx.NamedArgs) (app.App, error) {
	rows, _ := c.db.Pool.Query(ctx, sql, args)

	published, err := pgx.CollectExactlyOneRow(rows, scanApp)
	if errors.Is(err, pgx.ErrNoRows) {
		return published, app.NotFound()
	}

	return published, pg.Fault(what, err)
}

// BeginApp implements publish.Records. One that failed is built again.
func (c *Store) BeginApp(ctx context.Context, app app.App) (app.App, error) {
	return c.oneApp(ctx, "publish app", `
		INSERT INTO apps (id, owner_id, session_id, working_dir, name, status)
		VALUES (@id, @owner, @session, @dir, @name, 'building')
		ON CONFLICT (session_id, working_dir) WHERE status <> 'stopped' DO UPDATE
		SET name = excluded.name, status = CASE WHEN apps.status = 'live' THEN 'live' ELSE 'building' END, updated_at = now()
		RETURNING `+appColumns,
		pgx.NamedArgs{"id": app.ID, "owner": app.OwnerID, "session": app.SessionID, "dir": app.WorkingDir, "name": app.Name})
}

// ForgetApp implements publish.Records.
func (c *Store) ForgetApp(ctx context.Context, appID string) error {
	_, err := c.db.Pool.Exec(ctx, `DELETE FROM apps WHERE id = $1 AND status = 'building'`, appID)
	return pg.Fault("remove a failed app", err)
}

// StopApp implements publish.Records. Stopping again changes nothing.
func (c *Store) StopApp(ctx context.Context, ownerID, appID string) (app.App, error) {
	return c.oneApp(ctx, "unpublish app", `
		UPDATE apps SET status = 'stopped', updated_at = now() WHERE id = @id AND owner_id = @owner RETURNING `+appColumns,
		pgx.NamedArgs{"id": appID, "owner": ownerID})
}

// App implements publish.Records.
func (c *Store) App(ctx context.Context, ownerID, appID string) (app.App, error) {
	return c.oneApp(ctx, "read app", `SELECT `+appColumns+` FROM apps WHERE id = @id AND owner_id = @owner`,
		pgx.NamedArgs{"id": appID, "owner": ownerID})
}

// Apps implements publish.Records: the newest first, without those that were
// stopped.
func (c *Store) Apps(ctx context.Context, ownerID string) ([]app.App, error) {
	rows, _ := c.db.Pool.Query(ctx, `
		SELECT `+appColumns+` FROM apps WHERE owner_id = $1 AND status <> 'stopped' ORDER BY id DESC`, ownerID)
	apps, err := pgx.CollectRows(rows, scanApp)

	return apps, pg.Fault("list apps", err)
}

// LiveApp implements publish.Records. The apps of a deleted user are not served.
func (c *Store) LiveApp(ctx context.Context, appID string) (copyID string, err error) {
	err = c.db.Pool.QueryRow(ctx, `
		SELECT a.copy_id FROM apps a JOIN users u ON u.id = a.owner_id
		WHERE  a.id = $1 AND a.status = 'live' AND NOT u.closed`, appID).Scan(&copyID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", app.NotFound()
	}

	return copyID, pg.Fault("find app", err)
}
