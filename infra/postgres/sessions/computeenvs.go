package sessions

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// ComputeWork returns what runs in the sandboxes of a user's sessions.
func (db *Base) ComputeWork(ctx context.Context, userID string) (work domain.ComputeWork, err error) {
	if err := db.Pool.QueryRow(ctx, `
		SELECT count(*) FROM sessions WHERE owner_id = $1 AND status = 'running'
		    AND deleted_at IS NULL`, userID).Scan(&work.Chats); err != nil {
		return work, pg.Fault("count running chats", err)
	}

	rows, _ := db.Pool.Query(ctx, `
		SELECT `+TaskColumns+`
		FROM   sessions s CROSS JOIN LATERAL (
			SELECT * FROM background_tasks WHERE session_id = s.id AND status = 'running' AND kind = 'shell' OFFSET 0) b
		WHERE  s.owner_id = $1 AND s.deleted_at IS NULL`, userID)
	work.Tasks, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.BackgroundTask])

	return work, pg.Fault("list background commands", err)
}

// ForgetReads forgets which files the agents of a user have read, and counts them.
func (db *Base) ForgetReads(ctx context.Context, userID string) (n int, err error) {
	tag, err := db.Pool.Exec(ctx, `
		DELETE FROM file_reads WHERE session_id IN (SELECT id FROM sessions WHERE owner_id = $1 AND deleted_at IS NULL)`, userID)

	return int(tag.RowsAffected()), pg.Fault("forget read files", err)
}

// ComputeVersion gives the version of a user's compute environment; one that is
// looked at for the first time is of the current version.
func (db *Base) ComputeVersion(ctx context.Context, userID, current string) (version string, err error) {
	err = db.Pool.QueryRow(ctx, `
		INSERT INTO compute_envs (user_id, version) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET user_id = excluded.user_id RETURNING version`, userID, current).Scan(&version)

	return version, pg.Fault("read compute environment", err)
}

// SetComputeVersion records the version that a user's work starts again with.
func (db *Base) SetComputeVersion(ctx context.Context, userID, version string) error {
	_, err := db.Pool.Exec(ctx, `
		INSERT INTO compute_envs (user_id, version) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET version = excluded.version, updated_at = now()`, userID, version)

	return pg.Fault("write compute environment", err)
}
