package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// DeleteSession makes a session disappear for everybody at once. What it holds
// is removed afterwards; see PurgeSession. The caller owns the session.
func (db *DB) DeleteSession(ctx context.Context, sessionID string) error {
	tag, err := db.Pool.Exec(ctx, `
		UPDATE sessions SET deleted_at = now(), shared = false WHERE id = $1 AND deleted_at IS NULL`, sessionID)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.SessionNotFound(sessionID)
	}
	return fault("delete session", err)
}

// DeletedSessions gives the deleted sessions whose content has yet to be removed.
func (db *DB) DeletedSessions(ctx context.Context) ([]string, error) {
	rows, _ := db.Pool.Query(ctx, `SELECT id FROM sessions WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT 20`)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// PurgeSession removes every record of a deleted session. Its run, files,
// objects and events are gone by then.
func (db *DB) PurgeSession(ctx context.Context, sessionID string) error {
	err := db.InTx(ctx, func(tx pgx.Tx) error {
		for _, table := range []string{
			"history_operations", "checkpoints", "session_skills", "skill_loads", "skill_snapshots", "mcp_connections", "mcp_servers", "compactions", "session_extras", "share_links", "event_archives", "replays", "outbox", "questions", "loops", "tool_calls", "inbox", "background_tasks", "session_tasks", "file_reads", "entries", "chats", "branches", "sessions",
		} {
			where := "session_id"
			if table == "sessions" {
				where = "id"
			}
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE `+where+` = $1`, sessionID); err != nil {
				return err
			}
		}
		return nil
	})
	return fault("remove session", err)
}
