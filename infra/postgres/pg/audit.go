package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
)

// Executor is a transaction or a pool.
type Executor interface {
	Exec(ctx context.Context, statement string, arguments ...any) (pgconn.CommandTag, error)
}

// WriteAudit records that a caller used a privilege. Details hold facts, never contents.
func WriteAudit(ctx context.Context, in Executor, actorID, action, target string, details map[string]string) error {
	if details == nil {
		details = map[string]string{}
	}

	_, err := in.Exec(ctx, `
		INSERT INTO audit (id, actor_id, action, target, details) VALUES (@id, @actor, @action, @target, @details)`,
		pgx.NamedArgs{"id": domain.NewID(), "actor": actorID, "action": action, "target": target, "details": details})

	return err
}
