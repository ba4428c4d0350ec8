package conversation

import (
	"context"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// ImageBytes returns how many bytes the images of a session's tool results have together.
func (db *Base) ImageBytes(ctx context.Context, sessionID domain.SessionID) (bytes int64, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT coalesce(sum((i->>'bytes')::bigint), 0)
		FROM   tool_calls t CROSS JOIN LATERAL jsonb_array_elements(t.images) i
		WHERE  t.session_id = $1 AND t.images IS NOT NULL`, sessionID).Scan(&bytes)

	return bytes, pg.Fault("read images of tool results", err)
}
