package accounts

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// Audit records that a caller used a privilege: who, what (as
// `session.read`), on which thing. Details hold facts, never contents.
func (a *Store) Audit(ctx context.Context, actorID, action, target string, details map[string]string) error {
	return pg.Fault("write audit record", writeAudit(ctx, a.db.Pool, actorID, action, target, details))
}

// executor is a transaction or a pool.
type executor interface {
	Exec(ctx context.Context, statement string, arguments ...any) (pgconn.CommandTag, error)
}

func writeAudit(ctx context.Context, in executor, actorID, action, target string, details map[string]string) error {
	if details == nil {
		details = map[string]string{}
	}

	_, err := in.Exec(ctx, `
		INSERT INTO audit (id, actor_id, action, target, details) VALUES (@id, @actor, @action, @target, @details)`,
		pgx.NamedArgs{"id": domain.NewID(), "actor": actorID, "action": action, "target": target, "details": details})

	return err
}

// PruneAudit forgets entries of the audit log that are older than age.
func (a *Store) PruneAudit(ctx context.Context, age time.Duration, limit int) (int64, error) {
	return a.db.Prune(ctx, "forget old audit entries", `
		DELETE FROM audit WHERE id IN (
			SELECT id FROM (SELECT id, created_at FROM audit ORDER BY id LIMIT $2) oldest
			    WHERE created_at < now() - $1::interval)`, age, limit)
}
