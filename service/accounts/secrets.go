package accounts

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// AllowSecrets reports whether the tools of a session that members of a workspace steer get the
// environment of the session's owner: the owner allowed it for the workspace, or is its only
// member. The session is marked before its tools get anything.
func (a *Store) AllowSecrets(ctx context.Context, session domain.Session) (allowed bool, err error) {
	if !session.SteeredByOthers() {
		return true, nil
	}

	err = a.db.Pool.QueryRow(ctx, `
		WITH rule AS (
			SELECT EXISTS (SELECT 1 FROM agent_instance_shares WHERE instance_id = @instance AND workspace_id = @workspace AND secrets)
			    OR NOT EXISTS (SELECT 1 FROM prod_workspace_members WHERE workspace_id = @workspace AND user_id <> @owner) AS allowed),
		marked AS (UPDATE sessions SET holds_secrets = true WHERE id = @id AND NOT holds_secrets AND (SELECT allowed FROM rule))
		SELECT allowed FROM rule`,
		pgx.NamedArgs{
			"id": session.ID, "owner": session.OwnerID, "workspace": *session.WorkspaceID, "instance": session.Setup.Agent.InstanceID,
		}).Scan(&allowed)

	return allowed, pg.Fault("read who allows secrets", err)
}
