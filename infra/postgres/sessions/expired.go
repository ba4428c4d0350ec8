package sessions

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// ExpiredSessions gives sessions of a class in which nothing has happened for so long, at
// most limit of them and the oldest first. Left out are those that are pinned, shared,
// persistent, at work or have something queued. A session of a run in which a user has
// written since is one of the class chat from then on.
func (db *Base) ExpiredSessions(ctx context.Context, class domain.SessionClass, age time.Duration, limit int) ([]domain.SessionID, error) {
	rows, _ := db.Pool.Query(ctx, `
		WITH old AS (
			SELECT s.id, @class <> 'chat' AND EXISTS (
			           SELECT 1 FROM chats c
			           WHERE  c.session_id = s.id AND c.trigger NOT IN ('schedule', 'dag', 'issue', 'answer')) AS taken_over
			FROM   sessions s
			WHERE  s.class = @class AND s.created_at < now() - @age::interval AND s.updated_at < now() - @age::interval
			AND    s.deleted_at IS NULL AND NOT s.is_pinned AND NOT s.shared AND NOT s.is_persistent
			AND    s.status NOT IN ('running', 'waiting_for_input') AND s.active_chat_id IS NULL AND s.operation_id IS NULL
			AND    NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND i.state = 'queued')
			AND    NOT EXISTS (SELECT 1 FROM background_tasks b WHERE b.session_id = s.id AND b.status = 'running')
			ORDER  BY s.created_at LIMIT @limit),
		kept AS (
			UPDATE sessions SET class = 'chat' WHERE id IN (SELECT id FROM old WHERE taken_over))
		SELECT id FROM old WHERE NOT taken_over`, pgx.NamedArgs{"class": class, "age": age, "limit": limit})
	expired, err := pgx.CollectRows(rows, pgx.RowTo[domain.SessionID])

	return expired, pg.Fault("look for unused sessions", err)
}
