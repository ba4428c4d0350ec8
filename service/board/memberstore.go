package board

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

const memberColumns = `
	m.id, 'member' AS state, m.user_id, coalesce(nullif(u.name, ''), u.username) AS name, u.email, m.role, u.avatar_url, m.created_at`

const memberTables = `prod_workspace_members m JOIN users u ON u.id = m.user_id AND u.deleted_at IS NULL`

// Members lists the members of a workspace, in the order in which they joined. There are
// at most MaxWorkspaceMembers.
func (s *Store) Members(ctx context.Context, userID, workspaceID string) (members []board.WorkspaceMembership, err error) {
	if _, err = roleOf(ctx, s.db.Pool, userID, workspaceID); err == nil {
		rows, _ := s.db.Pool.Query(ctx, `SELECT `+memberColumns+` FROM `+memberTables+` WHERE m.workspace_id = $1
			ORDER BY m.id`, workspaceID)
		members, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.WorkspaceMembership])
	}

	return members, pg.Fault("list members", err)
}

// SetMember invites a user, named by id or user name, to a workspace, or gives a member
// another role. No member assigns or removes a role above their own, and one owner stays.
// The result does not depend on whether the user exists.
func (s *Store) SetMember(
	ctx context.Context,
	callerID, workspaceID, user string,
	role board.WorkspaceRole,
) (set board.WorkspaceMembership, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		own, err := lockMembers(ctx, tx, callerID, workspaceID)
		if err != nil {
			return err
		}

		if err := errors.Join(board.NeedsRole(own, board.WorkspaceAdmin), board.NeedsRole(own, role)); err != nil {
			return err
		}

		member, err := memberNamed(ctx, tx, workspaceID, user)

		switch {
		case err != nil:
			return err
		case member == nil:
			set, err = invite(ctx, tx, callerID, workspaceID, user, role)
		default:
			set, err = setRole(ctx, tx, own, workspaceID, *member, role)
		}

		return err
	})

	return set, pg.Fault("add member", err)
}

// memberNamed returns the member with the id or user name; nil: there is none.
func memberNamed(ctx context.Context, tx pgx.Tx, workspaceID, user string) (*board.WorkspaceMembership, error) {
	rows, _ := tx.Query(ctx, `SELECT `+memberColumns+` FROM `+memberTables+`
		WHERE m.workspace_id = $1 AND (u.id = $2 OR lower(u.username) = lower($2)) ORDER BY u.id = $2 DESC LIMIT 1`, workspaceID, user)

	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[board.WorkspaceMembership])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no member and no fault
	}

	return &found, err
}

func setRole(
	ctx context.Context,
	tx pgx.Tx,
	own board.WorkspaceRole,
	workspaceID string,
	member board.WorkspaceMembership,
	role board.WorkspaceRole,
) (board.WorkspaceMembership, error) {
	if err := mayTouch(ctx, tx, own, workspaceID, member.UserID, role == board.WorkspaceOwner); err != nil {
		return member, err
	}

	if !role.Includes(member.Role) {
		if err := withdrawInvitations(ctx, tx, workspaceID, member.UserID); err != nil {
			return member, err
		}
	}

	member.Role = role
	_, err := tx.Exec(ctx, `UPDATE prod_workspace_members SET role = $2 WHERE id = $1`, member.ID, role)

	return member, err
}

// RemoveMember removes a user from a workspace, or withdraws their invitation. All members may
// leave; others are removed by administrators of the workspace.
func (s *Store) RemoveMember(ctx context.Context, callerID, workspaceID, userID string) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		own, err := lockMembers(ctx, tx, callerID, workspaceID)
		if err != nil {
			return err
		}

		if callerID != userID {
			if err := board.NeedsRole(own, board.WorkspaceAdmin); err != nil {
				return err
			}
		}

		_, err = roleOf(ctx, tx, userID, workspaceID)
		if domain.HasCode(err, board.CodeWorkspaceNotFound) {
			return withdraw(ctx, tx, own, workspaceID, userID)
		}

		if err != nil {
			return err
		}

		if err := mayTouch(ctx, tx, own, workspaceID, userID, false); err != nil {
			return err
		}

		if err := withdrawInvitations(ctx, tx, workspaceID, userID); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `DELETE FROM prod_workspace_members WHERE workspace_id = $1 AND user_id = $2`, workspaceID, userID)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM prod_assistants WHERE workspace_id = $1 AND user_id = $2`, workspaceID, userID)
		}

		return err
	})

	return pg.Fault("remove member", err)
}

// lockMembers orders the changes of a workspace's members, and returns the caller's role.
func lockMembers(ctx context.Context, tx pgx.Tx, callerID, workspaceID string) (board.WorkspaceRole, error) {
	if _, err := tx.Exec(ctx, `SELECT 1 FROM prod_workspaces WHERE id = $1 FOR NO KEY UPDATE`, workspaceID); err != nil {
		return "", err
	}

	return roleOf(ctx, tx, callerID, workspaceID)
}

// mayTouch rejects a change of a member whose role is above the caller's, and one that
// leaves the workspace without an owner.
func mayTouch(ctx context.Context, tx pgx.Tx, own board.WorkspaceRole, workspaceID, userID string, staysOwner bool) error {
	role, err := roleOf(ctx, tx, userID, workspaceID)
	if domain.HasCode(err, board.CodeWorkspaceNotFound) {
		return nil // no member yet
	}

	if err != nil {
		return err
	}

	if err := board.NeedsRole(own, role); err != nil {
		return err
	}

	if role != board.WorkspaceOwner || staysOwner {
		return nil
	}

	var others bool

	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM prod_workspace_members WHERE workspace_id = $1 AND user_id <> $2
		    AND role = 'owner')`, workspaceID, userID).
		Scan(&others)
	if err == nil && !others {
		err = domain.Newf(domain.Conflict, "last_owner", "the workspace needs an owner: make another member one first")
	}

	return err
}
