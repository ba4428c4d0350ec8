package conversation

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// IdleSubAgents returns the sub-agents that should be at work and have shown no sign of it
// for longer than age, at most limit of them, in the order of their chats and ids and
// after the one with the given key. Those that only an answer can move are left out: they
// have an open question, or a sub-agent of theirs waits.
//
// A sign is what a sub-agent writes anyway: its newest turn started or ended, or the lease
// of a running call was renewed.
func (db *Base) IdleSubAgents(ctx context.Context, age time.Duration, after string, limit int) ([]domain.OpenSubAgent, error) {
	chat, loop, _ := strings.Cut(after, "/")
	rows, _ := db.Pool.Query(ctx, `
		SELECT l.id, l.session_id, l.chat_id, coalesce(l.task_id, '') AS task_id, l.background
		FROM   loops l
		WHERE  l.state <> 'ended' AND (l.chat_id, l.id) > ($1, $2) AND l.created_at < now() - $4::interval
		AND    coalesce((
			SELECT coalesce(e.ended_at, e.started_at) FROM entries e
			WHERE  e.chat_id = l.chat_id AND e.loop_id = l.id ORDER BY e.step DESC LIMIT 1), '-infinity') < now() - $4::interval
		AND    NOT EXISTS (
			SELECT 1 FROM tool_calls t JOIN entries e ON e.id = t.entry_id
			WHERE  t.chat_id = l.chat_id AND t.status = 'pending' AND t.lease_until > now() AND e.loop_id = l.id)
		AND    (l.state <> 'waiting' OR NOT EXISTS (
			SELECT 1 FROM questions q WHERE q.session_id = l.session_id AND q.state = 'open' AND q.loop_id = l.id) AND NOT EXISTS (
			SELECT 1 FROM loops k WHERE k.chat_id = l.chat_id AND k.parent_loop_id = l.id AND k.state = 'waiting'))
		ORDER  BY l.chat_id, l.id LIMIT $3`, chat, loop, limit, age)
	idle, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.OpenSubAgent])

	return idle, pg.Fault("look for sub-agents at work", err)
}
