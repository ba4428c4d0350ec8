package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// Audit records that somebody used a privilege: who, what (as
// `session.read`), on which thing. Details hold facts, never contents.
func (db *DB) Audit(ctx context.Context, actorID, action, target string, details map[string]string) error {
	if details == nil {
		details = map[string]string{}
	}
	_, err := db.Pool.Exec(ctx, `
		INSERT INTO audit (id, actor_id, action, target, details) VALUES (@id, @actor, @action, @target, @details)`,
		pgx.NamedArgs{"id": domain.NewID(), "actor": actorID, "action": action, "target": target, "details": details})
	return fault("write audit record", err)
}
