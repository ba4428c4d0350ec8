package recordings

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/infra/postgres/pg"
)

// Store reads the records of sessions and keeps the list of the objects that hold their
// events. It writes nothing that an event reports.
type Store struct{ db *pg.DB }

// NewStore returns a new store.
func NewStore(db *pg.DB) *Store { return &Store{db} }

// Unarchived returns chats that have ended, for good or until an answer, and whose
// events are not archived yet, though all of them are published: in the order of
// their ids and after one. Those that failed are left out until their next try.
func (s *Store) Unarchived(ctx context.Context, after string, limit int) ([]transfer.UnarchivedChat, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT c.id, c.session_id, c.round
		FROM   chats c JOIN sessions s ON s.id = c.session_id
		WHERE  c.state IN ('ended', 'parked') AND c.archived_round < c.round AND s.deleted_at IS NULL
		AND    c.id > $2 AND (c.archive_after IS NULL OR c.archive_after < now())
		AND    NOT EXISTS (SELECT 1 FROM outbox o WHERE o.session_id = c.session_id AND o.seq IS NULL)
		ORDER  BY c.id LIMIT $1`, limit, after)
	chats, err := pgx.CollectRows(rows, pgx.RowToStructByPos[transfer.UnarchivedChat])

	return chats, pg.Fault("look for chats to archive", err)
}

// PostponeArchive leaves a chat that could not be archived for later: for 10
// seconds, and twice as long after each failure, at most an hour and a half.
func (s *Store) PostponeArchive(ctx context.Context, chat transfer.UnarchivedChat) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE chats SET archive_tries = archive_tries + 1, archive_after = now() + interval '10 seconds' * 2 ^ least(archive_tries, 9)
		WHERE  id = $1`, chat.ChatID)

	return pg.Fault("postpone the archive of a chat", err)
}

// Archived returns the objects that hold a session's events, in order.
func (s *Store) Archived(ctx context.Context, sessionID domain.SessionID) ([]transfer.EventArchive, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT session_id, from_seq, upto_seq, key, events FROM event_archives WHERE session_id = $1 ORDER BY from_seq`, sessionID)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[transfer.EventArchive])

	return list, pg.Fault("read archives", err)
}

// KeepArchive notes that the chat's round is archived, and the object that its
// events went into; one without events is none. When another process was faster,
// its object counts: the chat stays on the list and the next look finds nothing
// left to do.
func (s *Store) KeepArchive(ctx context.Context, chat transfer.UnarchivedChat, made transfer.EventArchive) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		if made.Events > 0 {
			tag, err := tx.Exec(ctx, insertArchive, chat.SessionID, int64(made.FromSeq), int64(made.UpToSeq), made.Key, made.Events)
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
		}

		_, err := tx.Exec(ctx, `UPDATE chats SET archived_round = greatest(archived_round, $2), archive_tries = 0, archive_after = NULL
			WHERE id = $1`, chat.ChatID, chat.Round)

		return err
	})

	return pg.Fault("keep archive", err)
}

// LongRunning returns sessions whose chat runs and has not been archived, as a whole
// or a part of it, for age: in the order of their ids and after one.
func (s *Store) LongRunning(ctx context.Context, age time.Duration, after string, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT c.session_id
		FROM   chats c JOIN sessions s ON s.id = c.session_id
		WHERE  c.state = 'running' AND c.session_id > $3 AND s.deleted_at IS NULL
		AND    coalesce(c.started_at, c.created_at) < now() - $1::interval
		AND    NOT EXISTS (
			SELECT 1 FROM event_archives a WHERE a.session_id = c.session_id AND a.created_at > now() - $1::interval)
		ORDER  BY c.session_id LIMIT $2`, age, limit, after)
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return sessions, pg.Fault("look for long chats", err)
}

// KeepPart notes an object with a part of a session's events. It is false when
// another process was faster.
func (s *Store) KeepPart(ctx context.Context, made transfer.EventArchive) (kept bool, err error) {
	tag, err := s.db.Pool.Exec(ctx, insertArchive, made.SessionID, int64(made.FromSeq), int64(made.UpToSeq), made.Key, made.Events)
	return err == nil && tag.RowsAffected() > 0, pg.Fault("keep a part of an archive", err)
}

const insertArchive = `
	INSERT INTO event_archives (session_id, from_seq, upto_seq, key, events) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT DO NOTHING`
