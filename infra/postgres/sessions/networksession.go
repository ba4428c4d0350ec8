package sessions

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// NetworkSession reads what decides about the network of a session's commands: its
// owner, solution and setup, whether its running chat makes a plan, and the rules of
// its owner.
func (db *Base) NetworkSession(ctx context.Context, sessionID domain.SessionID) (
	session domain.Session, planning bool, rules []domain.PermissionRule, err error,
) {
	err = db.Pool.QueryRow(ctx, `
		SELECT s.id, s.owner_id, s.solution_id, s.setup,
		       coalesce((SELECT c.mode = 'planning' FROM chats c WHERE c.id = s.active_chat_id), false),
		       coalesce((SELECT jsonb_agg(jsonb_build_object('tool', $2::text, 'pattern', r.domain, 'decision', r.decision))
		                 FROM network_rules r WHERE r.user_id = s.owner_id), '[]')
		FROM   sessions s WHERE s.id = $1 AND s.deleted_at IS NULL`, sessionID, domain.NetworkTool).
		Scan(&session.ID, &session.OwnerID, &session.SolutionID, &session.Setup, &planning, &rules)
	if errors.Is(err, pgx.ErrNoRows) {
		return session, false, nil, domain.SessionNotFound(sessionID)
	}

	return session, planning, rules, pg.Fault("read the network rules of a session", err)
}
