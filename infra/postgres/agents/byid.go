package agents

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain/prodagent"
	"everloop/infra/postgres/pg"
)

// InstancesByID reads the instances with the ids, newest first. Who may see them was
// checked before.
func (s *Store) InstancesByID(ctx context.Context, ids []string) ([]prodagent.Instance, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+listedColumns+`, `+status+` FROM agent_instances a WHERE a.id = ANY ($1)
		ORDER BY a.id DESC`, ids)
	found, err := pgx.CollectRows(rows, scanInstance)

	return found, pg.Fault("read agent instances", err)
}
