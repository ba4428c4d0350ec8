package schedules

import (
	"context"

	"everloop/infra/postgres/pg"
)

// OwnWebhooks reports whether the user has all of the webhooks.
func (s *Store) OwnWebhooks(ctx context.Context, ownerID string, ids []string) (own bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT NOT EXISTS (SELECT 1 FROM unnest($2::text[]) AS asked (id)
		                   WHERE NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = asked.id AND w.owner_id = $1))`, ownerID, ids).Scan(&own)

	return own, pg.Fault("look up webhooks", err)
}
