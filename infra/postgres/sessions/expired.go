package sessions

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// unused holds for sessions s of a class in which nothing has happened for so long. Left
// out are those that are pinned, shared, persistent, at work or have something queued.
const unused = `
	s.class = @class AND s.created_at < now() - @age::interval AND s.updated_at < now() - @age::interval
	AND s.deleted_at IS NULL AND NOT s.is_pinned AND NOT s.shared AND NOT s.is_persistent
	AND s.status NOT IN ('running', 'waiting_for_input') AND s.active_chat_id IS NULL AND s.operation_id IS NULL
	AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND i.state = 'queued')
	AND NOT EXISTS (SELECT 1 FROM background_tasks b WHERE b.session_id = s.id AND b.status = 'running')`

// DeleteExpired deletes sessions of a class in which nothing has happened for so long, at
// most limit of them and the oldest first, as DeleteSession does. A session of a run in
// which a user has written since is one of the class chat from then on, and stays.
//
// The sessions are locked and then looked at again, so that none is deleted whose next
// message was acknowledged in the meantime; one that is being written to is left for later.
func (db *Base) DeleteExpired(
	ctx context.Context, class domain.SessionClass, age time.Duration, limit int,
) (deleted []domain.DeletedSession, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `
			SELECT s.id FROM sessions s WHERE `+unused+` ORDER BY s.created_at LIMIT @limit FOR UPDATE SKIP LOCKED`,
			pgx.NamedArgs{"class": class, "age": age, "limit": limit})

		locked, err := pgx.CollectRows(rows, pgx.RowTo[domain.SessionID])
		if err != nil || len(locked) == 0 {
			return err
		}

		rows, _ = tx.Query(ctx, `
			WITH old AS (
				SELECT s.id, @class <> 'chat' AND EXISTS (
				           SELECT 1 FROM chats c
				           WHERE  c.session_id = s.id AND c.trigger NOT IN ('schedule', 'dag', 'issue', 'answer')) AS taken_over
				FROM   sessions s WHERE s.id = ANY(@locked) AND `+unused+`),
			kept AS (
				UPDATE sessions SET class = 'chat' WHERE id IN (SELECT id FROM old WHERE taken_over))
			UPDATE sessions SET deleted_at = now(), shared = false WHERE id IN (SELECT id FROM old WHERE NOT taken_over)
			RETURNING id, owner_id`, pgx.NamedArgs{"class": class, "age": age, "locked": locked})
		deleted, err = pgx.CollectRows(rows, pgx.RowToStructByPos[domain.DeletedSession])

		return err
	})

	return deleted, pg.Fault("delete unused sessions", err)
}
