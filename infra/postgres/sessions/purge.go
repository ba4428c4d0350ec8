package sessions

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// DeleteSession hides a session from all clients at once. What it holds is
// removed afterwards; see PurgeSession. The caller is authorised.
func (db *Base) DeleteSession(ctx context.Context, sessionID domain.SessionID) error {
	tag, err := db.Pool.Exec(ctx, `
		UPDATE sessions SET deleted_at = now(), shared = false WHERE id = $1 AND deleted_at IS NULL`, sessionID)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.SessionNotFound(sessionID)
	}

	return pg.Fault("delete session", err)
}

// LiveWork counts the tool calls and background tasks of a session that a worker still
// carries out.
func (db *Base) LiveWork(ctx context.Context, sessionID domain.SessionID) (n int, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM chats c JOIN tool_calls t ON t.chat_id = c.id
		        WHERE  c.session_id = $1 AND c.state = 'running' AND t.status = 'pending' AND t.lease_until > now())
		     + (SELECT count(*) FROM background_tasks
		        WHERE  session_id = $1 AND status = 'running' AND lease_expires_at > now())`, sessionID).Scan(&n)

	return n, pg.Fault("count the live work of a session", err)
}

// purgeBatch is how many rows one transaction of PurgeSession removes.
const purgeBatch = 500

// PurgedTables are the tables with any number of rows of a session, those that refer to
// others first. What entries own goes with them, and the session itself last, with the
// few rows of tables whose foreign keys cascade.
var PurgedTables = []string{
	"annotations",
	"webhook_deliveries",
	"history_operations",
	"checkpoints",
	"compactions",
	"imports",
	"share_links",
	"event_archives",
	"outbox",
	"questions",
	"loops",
	"tool_calls",
	"entries",
	"inbox",
	"background_tasks",
	"session_tasks",
	"file_reads",
	"chats",
	"branches",
	"search_texts",
	"session_usage",
	"sessions",
}

// PurgeSession removes every row of a deleted session, some hundred in one
// transaction, so that no other work waits for it. When it is interrupted it continues
// where it was. Its run, files, objects and events are gone by then.
func (db *Base) PurgeSession(ctx context.Context, sessionID domain.SessionID) error {
	for _, table := range PurgedTables {
		for {
			removed, err := db.purge(ctx, table, sessionID)
			if err != nil {
				return pg.Fault("remove rows of a session from "+table, err)
			}

			if removed < purgeBatch {
				break
			}
		}
	}

	return nil
}

// purge removes one batch of a session's rows from a table.
func (db *Base) purge(ctx context.Context, table string, sessionID domain.SessionID) (removed int64, err error) {
	switch table {
	case "tool_calls":
		return 0, nil // with their entries
	case "entries":
		return db.purgeEntries(ctx, sessionID)
	case "session_usage": // the usage of users outlives their sessions
		_, err := db.Pool.Exec(ctx, foldUsage, sessionID)
		return 0, err
	case "sessions":
		_, err := db.Pool.Exec(ctx, `DELETE FROM sessions WHERE id = $1 AND deleted_at IS NOT NULL`, sessionID)
		return 0, err
	}

	order := ""
	if table == "branches" {
		order = " ORDER BY id DESC" // a branch is younger than its parent
	}

	tag, err := db.Pool.Exec(ctx, `
		DELETE FROM `+table+`
		    WHERE ctid = ANY (ARRAY (SELECT ctid FROM `+table+` WHERE session_id = $1`+order+` LIMIT $2))`, sessionID, purgeBatch)

	return tag.RowsAffected(), err
}

func (db *Base) purgeEntries(ctx context.Context, sessionID domain.SessionID) (removed int64, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `SELECT id FROM entries WHERE session_id = $1 LIMIT $2`, sessionID, purgeBatch)

		entries, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}

		var batch pgx.Batch
		batch.Queue(`DELETE FROM tool_calls WHERE entry_id = ANY ($1)`, entries)
		batch.Queue(`DELETE FROM entries WHERE id = ANY ($1)`, entries)
		removed = int64(len(entries))

		return tx.SendBatch(ctx, &batch).Close()
	})

	return removed, err
}
