package board

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

const pendingColumns = `
	id, 'invited' AS state, invitee AS user_id, invitee AS name, '' AS email, role, NULL AS avatar_url, created_at`

// ofInvitee are the invitations i that the user @user u has not declined, each with its workspace w and
// the user p who invites.
const ofInvitee = `
	prod_workspace_invitations i JOIN prod_workspaces w ON w.id = i.workspace_id JOIN users p ON p.id = i.invited_by
	JOIN  users u ON u.id = @user
	WHERE i.invitee IN (lower(u.id), lower(u.username)) AND i.declined_at IS NULL`

// invite stores an invitation, or changes the role of one. Whether the user exists is not looked at.
func invite(
	ctx context.Context,
	tx pgx.Tx,
	callerID, workspaceID, user string,
	role board.WorkspaceRole,
) (board.WorkspaceMembership, error) {
	rows, _ := tx.Query(ctx, `
		INSERT INTO prod_workspace_invitations (id, workspace_id, invitee, role, invited_by)
		SELECT @id, @workspace, lower(@user), @role, @caller
		WHERE  EXISTS (SELECT 1 FROM prod_workspace_invitations WHERE workspace_id = @workspace AND invitee = lower(@user))
		OR     (SELECT count(*) FROM prod_workspace_members WHERE workspace_id = @workspace)
		       + (SELECT count(*) FROM prod_workspace_invitations WHERE workspace_id = @workspace) < @max
		ON     CONFLICT (workspace_id, invitee) DO UPDATE SET role = excluded.role, invited_by = excluded.invited_by
		RETURNING `+pendingColumns,
		pgx.NamedArgs{
			"id":        domain.NewID(),
			"workspace": workspaceID,
			"user":      user,
			"role":      role,
			"caller":    callerID,
			"max":       board.MaxWorkspaceMembers,
		})

	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[board.WorkspaceMembership])
	if errors.Is(err, pgx.ErrNoRows) {
		err = domain.Newf(domain.Conflict, "member_limit", "a workspace may have %d members and invitations", board.MaxWorkspaceMembers)
	}

	return made, err
}

// withdraw deletes the invitation that names the user.
func withdraw(ctx context.Context, tx pgx.Tx, own board.WorkspaceRole, workspaceID, user string) error {
	if err := board.NeedsRole(own, board.WorkspaceAdmin); err != nil {
		return err
	}

	tag, err := tx.Exec(ctx, `DELETE FROM prod_workspace_invitations WHERE workspace_id = $1 AND invitee = lower($2)`, workspaceID, user)
	if err == nil && tag.RowsAffected() == 0 {
		err = domain.Newf(domain.NotFound, "member_not_found", "user %s is not a member of the workspace", user)
	}

	return err
}

// withdrawInvitations deletes the invitations that a member made, because the member loses the right to.
func withdrawInvitations(ctx context.Context, tx pgx.Tx, workspaceID, userID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM prod_workspace_invitations WHERE workspace_id = $1 AND invited_by = $2`, workspaceID, userID)

	return err
}

// WorkspaceInvitations lists the invitations of a workspace for its administrators, oldest first. One that
// the user declined stays, as one for an unknown user does.
func (s *Store) WorkspaceInvitations(ctx context.Context, userID, workspaceID string) (pending []board.WorkspaceMembership, err error) {
	if err = needs(ctx, s.db.Pool, userID, workspaceID, board.WorkspaceAdmin); err == nil {
		rows, _ := s.db.Pool.Query(ctx, `SELECT `+pendingColumns+` FROM prod_workspace_invitations WHERE workspace_id = $1
			ORDER BY id`, workspaceID)
		pending, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.WorkspaceMembership])
	}

	return pending, pg.Fault("list invitations of a workspace", err)
}

// Invitations lists the open invitations of a user, newest first.
func (s *Store) Invitations(ctx context.Context, userID string) ([]board.Invitation, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT i.id, i.workspace_id, w.name AS workspace_name, i.role, coalesce(nullif(p.name, ''), p.username) AS invited_by, i.created_at
		FROM   `+ofInvitee+` ORDER BY i.id DESC LIMIT 1000`, pgx.NamedArgs{"user": userID})
	open, err := pgx.CollectRows(rows, pgx.RowToStructByName[board.Invitation])

	return open, pg.Fault("list invitations", err)
}

// AcceptInvitation makes the invited user a member of the workspace.
func (s *Store) AcceptInvitation(ctx context.Context, userID, id string) (joined board.Workspace, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		workspaceID, err := workspaceOfInvitation(ctx, tx, userID, id)
		if err != nil {
			return err
		}

		// The lock orders this after a change of the inviter's role, which deletes the invitation.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM prod_workspaces WHERE id = $1 FOR NO KEY UPDATE`, workspaceID); err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			WITH accepted AS (DELETE FROM prod_workspace_invitations WHERE id = @id RETURNING workspace_id, role)
			INSERT INTO prod_workspace_members (id, workspace_id, user_id, role) SELECT @member, workspace_id, @user, role FROM accepted
			ON     CONFLICT (workspace_id, user_id) DO NOTHING`,
			pgx.NamedArgs{"id": id, "member": domain.NewID(), "user": userID})
		if err != nil {
			return err
		}

		joined, err = workspace(ctx, tx, userID, workspaceID)
		if tag.RowsAffected() == 0 && domain.HasCode(err, board.CodeWorkspaceNotFound) {
			err = board.InvitationNotFound(id)
		}

		return err
	})

	return joined, pg.Fault("accept invitation", err)
}

// DeclineInvitation hides an invitation from the invited user.
func (s *Store) DeclineInvitation(ctx context.Context, userID, id string) error {
	_, err := workspaceOfInvitation(ctx, s.db.Pool, userID, id)
	if err == nil {
		_, err = s.db.Pool.Exec(ctx, `UPDATE prod_workspace_invitations SET declined_at = now() WHERE id = $1`, id)
	}

	return pg.Fault("decline invitation", err)
}

func workspaceOfInvitation(ctx context.Context, q pg.Queryer, userID, id string) (workspaceID string, err error) {
	rows, _ := q.Query(ctx, `SELECT i.workspace_id FROM `+ofInvitee+` AND i.id = @id`, pgx.NamedArgs{"user": userID, "id": id})

	workspaceID, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	if errors.Is(err, pgx.ErrNoRows) {
		err = board.InvitationNotFound(id)
	}

	return workspaceID, err
}
