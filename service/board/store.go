package board

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

// Store reads and writes production workspaces, issues and runs. A workspace does not exist for
// a caller who is not a member of it: workspace_not_found.
type Store struct{ db *pg.DB }

// NewStore returns a new store on a database.
func NewStore(db *pg.DB) *Store { return &Store{db} }

// visibleAgents are the agent instances a that the user @caller may assign issues to in the
// workspace @workspace: those that are not archived, shared with the workspace or the caller's
// own, and whose owner is at least a member there.
const visibleAgents = `
	agent_instances a JOIN prod_workspace_members am ON am.workspace_id = @workspace AND am.user_id = a.owner_id
	WHERE a.archived_at IS NULL AND am.role <> 'viewer' AND (a.owner_id = @caller OR a.visibility = 'workspace' AND EXISTS (
		SELECT 1 FROM agent_instance_shares h WHERE h.instance_id = a.id AND h.workspace_id = am.workspace_id))`

// workspaceColumns give a board.Workspace of the row w, and of the row m that makes
// the user its member.
const workspaceColumns = `
	w.id, w.name, w.slug, w.description, w.issue_prefix, w.settings, m.role, w.created_at, w.updated_at,
	(SELECT count(*) FROM prod_workspace_members o JOIN users u ON u.id = o.user_id
	 WHERE o.workspace_id = w.id AND u.deleted_at IS NULL) AS member_count,
	(SELECT count(*) FROM agent_instances a JOIN prod_workspace_members o ON o.workspace_id = w.id AND o.user_id = a.owner_id
	 WHERE a.archived_at IS NULL AND o.role <> 'viewer' AND (a.owner_id = m.user_id OR a.visibility = 'workspace' AND EXISTS (
	     SELECT 1 FROM agent_instance_shares h WHERE h.instance_id = a.id AND h.workspace_id = w.id))) AS agent_count`

const workspaceTables = `prod_workspaces w JOIN prod_workspace_members m ON m.workspace_id = w.id`

// CreateWorkspace creates a workspace whose owner the user is. One who owns MaxWorkspaces
// gets workspace_limit.
func (s *Store) CreateWorkspace(ctx context.Context, userID string, in board.NewWorkspace) (made board.Workspace, err error) {
	id := domain.NewID()

	if in.IssuePrefix == "" {
		in.IssuePrefix = board.IssuePrefixOf(in.Name)
	}

	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		// The row of the user serialises creations, so that they count each other.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE`, userID); err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			INSERT INTO prod_workspaces (id, name, slug, description, issue_prefix, settings)
			SELECT @id, @name, @slug, @description, @prefix, @settings
			WHERE  (SELECT count(*) FROM prod_workspace_members WHERE user_id = @user AND role = 'owner') < @most`,
			pgx.NamedArgs{
				"id": id, "name": in.Name, "slug": board.Slug(in.Name, id), "description": in.Description, "prefix": in.IssuePrefix,
				"settings": in.Settings, "user": userID, "most": board.MaxWorkspaces,
			})
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return domain.Newf(domain.Conflict, "workspace_limit", "a user may own %d workspaces; delete one first", board.MaxWorkspaces)
		}

		if _, err := tx.Exec(ctx, `
			INSERT INTO prod_workspace_members (id, workspace_id, user_id, role) VALUES ($1, $2, $3, 'owner')`,
			domain.NewID(), id, userID); err != nil {
			return err
		}

		made, err = workspace(ctx, tx, userID, id)

		return err
	})

	return made, pg.Fault("create workspace", err)
}

// Workspaces lists the workspaces of a user, newest first: a page, and how many there
// are.
func (s *Store) Workspaces(ctx context.Context, userID string, limit, offset int) (page []board.Workspace, total int, err error) {
	var batch pgx.Batch
	batch.Queue(`SELECT `+workspaceColumns+` FROM `+workspaceTables+` WHERE m.user_id = $1 ORDER BY w.id DESC LIMIT $2 OFFSET $3`,
		userID, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.Workspace])
			return err
		})
	batch.Queue(`SELECT count(*) FROM prod_workspace_members WHERE user_id = $1`, userID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list workspaces", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// Workspace reads one workspace of a user.
func (s *Store) Workspace(ctx context.Context, userID, id string) (board.Workspace, error) {
	found, err := workspace(ctx, s.db.Pool, userID, id)
	return found, pg.Fault("read workspace", err)
}

func workspace(ctx context.Context, q pg.Queryer, userID, id string) (board.Workspace, error) {
	rows, _ := q.Query(ctx, `SELECT `+workspaceColumns+` FROM `+workspaceTables+` WHERE w.id = $1 AND m.user_id = $2`, id, userID)

	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[board.Workspace])
	if errors.Is(err, pgx.ErrNoRows) {
		return found, board.WorkspaceNotFound(id)
	}

	return found, err
}

// DeleteWorkspace removes a workspace with its issues. Its sessions stay with their
// owners. A run that works must be stopped.
func (s *Store) DeleteWorkspace(ctx context.Context, userID, id string) (plan board.IssueRunPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = board.IssueRunPlan{}

		if err := needs(ctx, tx, userID, id, board.WorkspaceOwner); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			SELECT r.owner_id, r.session_id, r.chat_id FROM issue_runs r JOIN issues i ON i.id = r.issue_id
			WHERE  i.workspace_id = $1 AND r.status = 'running' AND r.session_id IS NOT NULL AND r.chat_id IS NOT NULL`, id)

		var err error
		if plan.Stop, err = pgx.CollectRows(rows, pgx.RowToStructByPos[domain.RunChat]); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `DELETE FROM prod_workspaces WHERE id = $1`, id)

		return err
	})

	return plan, pg.Fault("delete workspace", err)
}

// roleOf returns the role of a user in a workspace.
func roleOf(ctx context.Context, q pg.Queryer, userID, id string) (board.WorkspaceRole, error) {
	rows, _ := q.Query(ctx, `SELECT role FROM prod_workspace_members WHERE workspace_id = $1 AND user_id = $2`, id, userID)

	role, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[board.WorkspaceRole])
	if errors.Is(err, pgx.ErrNoRows) {
		return "", board.WorkspaceNotFound(id)
	}

	return role, err
}

// needs rejects a user without the role.
func needs(ctx context.Context, q pg.Queryer, userID, id string, role board.WorkspaceRole) error {
	has, err := roleOf(ctx, q, userID, id)
	if err != nil {
		return err
	}

	return board.NeedsRole(has, role)
}

// WorkspaceAgents lists the ids of the agent instances that a user sees in a workspace.
func (s *Store) WorkspaceAgents(ctx context.Context, userID, id string, limit, offset int) (ids []string, total int, err error) {
	if _, err := roleOf(ctx, s.db.Pool, userID, id); err != nil {
		return nil, 0, pg.Fault("list agents of a workspace", err)
	}

	args := pgx.NamedArgs{"workspace": id, "caller": userID, "limit": limit, "offset": offset}

	var batch pgx.Batch
	batch.Queue(`SELECT a.id FROM `+visibleAgents+` ORDER BY a.id DESC LIMIT @limit OFFSET @offset`, args).
		Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	batch.Queue(`SELECT count(*) FROM `+visibleAgents, args).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return ids, total, pg.Fault("list agents of a workspace", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// Assistant returns the session in which a user talks to an assistant of a workspace;
// empty: there is none, or it was deleted.
func (s *Store) Assistant(ctx context.Context, userID, workspaceID, roleID string) (sessionID domain.SessionID, err error) {
	if _, err := roleOf(ctx, s.db.Pool, userID, workspaceID); err != nil {
		return "", pg.Fault("read assistant session", err)
	}

	err = s.db.Pool.QueryRow(ctx, `
		SELECT a.assistant_session FROM prod_assistants a
		JOIN   sessions s ON s.id = a.assistant_session AND s.owner_id = a.user_id AND s.deleted_at IS NULL
		WHERE  a.workspace_id = $1 AND a.user_id = $2 AND a.biz_role_id = $3`, workspaceID, userID, roleID).Scan(&sessionID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}

	return sessionID, pg.Fault("read assistant session", err)
}

// SetAssistant binds a session of the user to a role of the workspace's assistants. With
// replace unset, one that another request has bound in the meantime stays, and is returned.
func (s *Store) SetAssistant(
	ctx context.Context,
	userID, workspaceID, roleID string,
	sessionID domain.SessionID,
	replace bool,
) (bound domain.SessionID, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		// The membership's row serialises them, so that they count each other.
		if _, err := tx.Exec(ctx, `
			SELECT 1 FROM prod_workspace_members WHERE workspace_id = $1 AND user_id = $2
			    FOR NO KEY UPDATE`, workspaceID, userID); err != nil {
			return err
		}

		if _, err := roleOf(ctx, tx, userID, workspaceID); err != nil {
			return err
		}

		err := tx.QueryRow(ctx, `
			INSERT INTO prod_assistants AS p (workspace_id, user_id, biz_role_id, assistant_session)
			SELECT @workspace, @user, @role, @session
			WHERE  (SELECT count(*) FROM prod_assistants WHERE workspace_id = @workspace AND user_id = @user
			    AND biz_role_id <> @role) < @most
			ON     CONFLICT (workspace_id, user_id, biz_role_id) DO UPDATE
			SET    assistant_session = CASE
			           WHEN @replace OR NOT EXISTS (
			               SELECT 1 FROM sessions s WHERE s.id = p.assistant_session AND s.deleted_at IS NULL) THEN @session
			           ELSE p.assistant_session END
			RETURNING assistant_session`,
			pgx.NamedArgs{
				"workspace": workspaceID,
				"user":      userID,
				"role":      roleID,
				"session":   sessionID,
				"most":      board.MaxAssistants,
				"replace":   replace,
			}).Scan(&bound)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.Newf(domain.Conflict, "assistant_limit", "a member may have %d assistant sessions in a "+
				"workspace", board.MaxAssistants)
		}

		return err
	})

	return bound, pg.Fault("bind assistant session", err)
}
