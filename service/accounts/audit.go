package accounts

import (
	"context"
	"time"

	"everloop/infra/postgres/pg"
)

// Audit records that a caller used a privilege: who, what (as
// `session.read`), on which thing. Details hold facts, never contents.
func (a *Store) Audit(ctx context.Context, actorID, action, target string, details map[string]string) error {
	return pg.Fault("write audit record", pg.WriteAudit(ctx, a.db.Pool, actorID, action, target, details))
}

// PruneAudit forgets entries of the audit log that are older than age.
func (a *Store) PruneAudit(ctx context.Context, age time.Duration, limit int) (int64, error) {
	return a.db.Prune(ctx, "forget old audit entries", `
		DELETE FROM audit WHERE id IN (
			SELECT id FROM (SELECT id, created_at FROM audit ORDER BY id LIMIT $2) oldest
			    WHERE created_at < now() - $1::interval)`, age, limit)
}
