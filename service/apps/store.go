package apps

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain/app"
	"everloop/infra/postgres/pg"
)

// Store keeps apps and counts their copies. The place of an app is a session and a directory
// of its workspace.
type Store struct{ db *pg.DB }

// NewStore returns a new store.
func NewStore(db *pg.DB) *Store { return &Store{db} }

// appColumns give an app. One that has been building for long was lost with its
// process.
const appColumns = `id, owner_id, session_id, working_dir, name,
	CASE WHEN status = 'building' AND updated_at < now() - interval '10 minutes' THEN 'failed' ELSE status END, copy_id, published_at`

func scanApp(row pgx.CollectableRow) (app.App, error) {
	var a app.App
	return a, row.Scan(&a.ID, &a.OwnerID, &a.SessionID, &a.WorkingDir, &a.Name, &a.Status, &a.CopyID, &a.PublishedAt)
}

func (s *Store) oneApp(ctx context.Context, what, sql string, args pgx.NamedArgs) (app.App, error) {
	rows, _ := s.db.Pool.Query(ctx, sql, args)

	published, err := pgx.CollectExactlyOneRow(rows, scanApp)
	if errors.Is(err, pgx.ErrNoRows) {
		return published, app.NotFound()
	}

	return published, pg.Fault(what, err)
}

// BeginApp returns the app of a place, and makes it when there is none. One that failed is
// built again.
func (s *Store) BeginApp(ctx context.Context, app app.App) (app.App, error) {
	return s.oneApp(ctx, "publish app", `
		INSERT INTO apps (id, owner_id, session_id, working_dir, name, status)
		VALUES (@id, @owner, @session, @dir, @name, 'building')
		ON CONFLICT (session_id, working_dir) WHERE status <> 'stopped' DO UPDATE
		SET name = excluded.name, status = CASE WHEN apps.status = 'live' THEN 'live' ELSE 'building' END, updated_at = now()
		RETURNING `+appColumns,
		pgx.NamedArgs{"id": app.ID, "owner": app.OwnerID, "session": app.SessionID, "dir": app.WorkingDir, "name": app.Name})
}

// ForgetApp deletes an app that was never live.
func (s *Store) ForgetApp(ctx context.Context, appID string) error {
	_, err := s.db.Pool.Exec(ctx, `DELETE FROM apps WHERE id = $1 AND status = 'building'`, appID)
	return pg.Fault("remove a failed app", err)
}

// StopApp ends an app of the owner. Stopping it again changes nothing.
func (s *Store) StopApp(ctx context.Context, ownerID, appID string) (app.App, error) {
	return s.oneApp(ctx, "unpublish app", `
		UPDATE apps SET status = 'stopped', updated_at = now() WHERE id = @id AND owner_id = @owner RETURNING `+appColumns,
		pgx.NamedArgs{"id": appID, "owner": ownerID})
}

// App returns an app of the owner.
func (s *Store) App(ctx context.Context, ownerID, appID string) (app.App, error) {
	return s.oneApp(ctx, "read app", `SELECT `+appColumns+` FROM apps WHERE id = @id AND owner_id = @owner`,
		pgx.NamedArgs{"id": appID, "owner": ownerID})
}

// Apps returns the apps of the owner that were not stopped, the newest first.
func (s *Store) Apps(ctx context.Context, ownerID string) ([]app.App, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+appColumns+` FROM apps WHERE owner_id = $1 AND status <> 'stopped' ORDER BY id DESC`, ownerID)
	apps, err := pgx.CollectRows(rows, scanApp)

	return apps, pg.Fault("list apps", err)
}

// LiveApp returns the copy of a live app for any caller. The apps of a closed account are not
// served.
func (s *Store) LiveApp(ctx context.Context, appID string) (copyID string, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT a.copy_id FROM apps a JOIN users u ON u.id = a.owner_id
		WHERE  a.id = $1 AND a.status = 'live' AND NOT u.closed`, appID).Scan(&copyID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", app.NotFound()
	}

	return copyID, pg.Fault("find app", err)
}
