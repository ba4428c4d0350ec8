package conversation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// RefusedImages returns the images of a session that the server of a model has refused, by
// their names.
func (db *Base) RefusedImages(ctx context.Context, sessionID domain.SessionID, model string) ([]string, error) {
	rows, _ := db.Pool.Query(ctx, `SELECT image FROM refused_images WHERE session_id = $1 AND model = $2`, sessionID, model)
	images, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return images, pg.Fault("read refused images", err)
}

// RefuseImages records that the server of a model has refused images of a session.
func (db *Base) RefuseImages(ctx context.Context, sessionID domain.SessionID, model string, images []string) error {
	_, err := db.Pool.Exec(ctx, `
		INSERT INTO refused_images (session_id, model, image)
		SELECT DISTINCT $1, $2, i FROM unnest($3::text[]) AS i ON CONFLICT DO NOTHING`, sessionID, model, images)

	return pg.Fault("record refused images", err)
}
