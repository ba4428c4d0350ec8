package conversation

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// waiterColumns are the columns of a domain.ChatWaiter.
const waiterColumns = `chats.id, coalesce(chats.waiter, '')`

// ChatWaiters lists the waiters of chats that ended longer than age ago which were not
// notified, after a chat and in the order of the chats.
func (db *Base) ChatWaiters(ctx context.Context, age time.Duration, after string, limit int) ([]domain.ChatWaiter, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+waiterColumns+` FROM chats
		WHERE  waiter IS NOT NULL AND state = 'ended' AND NOT waiter_notified AND ended_at <= now() - $1::interval AND id > $2
		ORDER  BY id LIMIT $3`, age, after, limit)
	waiters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.ChatWaiter])

	return waiters, pg.Fault("list chats that are waited for", err)
}

// WaiterNotified records that the waiter of an ended chat was signalled, or is closed.
func (db *Base) WaiterNotified(ctx context.Context, chatID domain.ChatID) error {
	_, err := db.Pool.Exec(ctx, `UPDATE chats SET waiter_notified = true WHERE id = $1`, chatID)
	return pg.Fault("record a notification", err)
}
