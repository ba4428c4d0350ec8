package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// AllowedRoles returns which roles of the solution the user may take. A user that
// there is not is user_not_found.
func (a *Store) AllowedRoles(ctx context.Context, userID, solutionID string) (domain.AllowedRoles, error) {
	allowed := domain.AllowedRoles{UserID: userID, SolutionID: solutionID, BizRoleIDs: []string{}}

	err := a.db.Pool.QueryRow(ctx, `
		SELECT coalesce(r.biz_role_ids, '{}'), r.user_id IS NULL
		FROM   users u LEFT JOIN allowed_biz_roles r ON r.user_id = u.id AND r.solution_id = $2
		WHERE  u.id = $1 AND u.deleted_at IS NULL`, userID, solutionID).Scan(&allowed.BizRoleIDs, &allowed.DefaultAll)
	if errors.Is(err, pgx.ErrNoRows) {
		return allowed, userNotFound(userID)
	}

	return allowed, pg.Fault("read allowed roles", err)
}

// SetAllowedRoles restricts the user to the roles.
func (a *Store) SetAllowedRoles(ctx context.Context, userID, solutionID string, roles []string) error {
	tag, err := a.db.Pool.Exec(ctx, `
		INSERT INTO allowed_biz_roles (user_id, solution_id, biz_role_ids)
		SELECT id, $2, $3 FROM users WHERE id = $1 AND deleted_at IS NULL
		ON CONFLICT (user_id, solution_id) DO UPDATE SET biz_role_ids = excluded.biz_role_ids, updated_at = now()`,
		userID, solutionID, roles)
	if err == nil && tag.RowsAffected() == 0 {
		return userNotFound(userID)
	}

	return pg.Fault("set allowed roles", err)
}
