package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// Unarchived gives chats that have ended, for good or until an answer, and whose
// events are not archived yet, though all of them are published.
func (db *DB) Unarchived(ctx context.Context, limit int) ([]domain.UnarchivedChat, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT c.id, c.session_id, c.round
		FROM   chats c JOIN sessions s ON s.id = c.session_id
		WHERE  c.state IN ('ended', 'parked') AND c.archived_round < c.round AND s.deleted_at IS NULL
		AND    NOT EXISTS (SELECT 1 FROM outbox o WHERE o.session_id = c.session_id)
		ORDER  BY c.id LIMIT $1`, limit)
	chats, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.UnarchivedChat])
	return chats, fault("look for chats to archive", err)
}

// Archived gives the objects that hold a session's events, in order.
func (db *DB) Archived(ctx context.Context, sessionID string) ([]domain.EventArchive, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT session_id, from_seq, upto_seq, key, events FROM event_archives WHERE session_id = $1 ORDER BY from_seq`, sessionID)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.EventArchive])
	return list, fault("read archives", err)
}

// KeepArchive notes that the chat's round is archived, and the object that its
// events went into; one without events is none. When another sweep was faster,
// its object counts: the chat stays on the list and the next look finds nothing
// left to do.
func (db *DB) KeepArchive(ctx context.Context, chat domain.UnarchivedChat, made domain.EventArchive) error {
	err := db.InTx(ctx, func(tx pgx.Tx) error {
		if made.Events > 0 {
			tag, err := tx.Exec(ctx, `
				INSERT INTO event_archives (session_id, from_seq, upto_seq, key, events) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT DO NOTHING`, chat.SessionID, int64(made.FromSeq), int64(made.UpToSeq), made.Key, made.Events)
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
		}
		_, err := tx.Exec(ctx, `UPDATE chats SET archived_round = greatest(archived_round, $2) WHERE id = $1`, chat.ChatID, chat.Round)
		return err
	})
	return fault("keep archive", err)
}
