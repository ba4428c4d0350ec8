package postgres

import (
	"context"

	"everloop/infra/postgres/pg"
)

// LiveSessions lists the sessions that have files and objects, for backups.
const LiveSessions = `SELECT id FROM sessions WHERE deleted_at IS NULL`

// DeleteGone deletes the sessions that were deleted while a backup was written: it may
// lack files of theirs. What is left of them is removed by the job for deleted sessions.
const DeleteGone = `UPDATE sessions SET deleted_at = now(), shared = false WHERE id = ANY ($1) AND deleted_at IS NULL`

// ForgetEngine makes the database forget what it knows of a Temporal server that holds
// nothing after a restore: every schedule is made again there.
const ForgetEngine = `UPDATE scheduled_tasks SET pending = 'restored' WHERE pending IS NULL`

// NewGeneration makes a restored database another one than that of the backup: runs in
// Temporal that belong to the old one must not work on it.
const NewGeneration = `
	INSERT INTO database_generation DEFAULT VALUES ON CONFLICT (id) DO UPDATE SET generation = excluded.generation`

// Generation returns which database this is.
func (db *DB) Generation(ctx context.Context) (generation string, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT generation::text FROM database_generation`).Scan(&generation)
	return generation, pg.Fault("read the generation of the database", err)
}
