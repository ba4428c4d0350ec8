package conversation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/infra/postgres/pg"
)

// ChatWaiters lists the ended chats for which a workflow run waits that was not
// signalled yet.
func (db *Base) ChatWaiters(ctx context.Context, after string, limit int) ([]schedule.ChatWaiter, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT id, waiter FROM chats
		WHERE  waiter IS NOT NULL AND state = 'ended' AND NOT waiter_notified AND id > $1 ORDER BY id LIMIT $2`, after, limit)
	waiters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[schedule.ChatWaiter])

	return waiters, pg.Fault("list chats that are waited for", err)
}

// WaiterNotified records that the run which waits for a chat was signalled.
func (db *Base) WaiterNotified(ctx context.Context, chatID domain.ChatID) error {
	_, err := db.Pool.Exec(ctx, `UPDATE chats SET waiter_notified = true WHERE id = $1`, chatID)
	return pg.Fault("record a notification", err)
}
