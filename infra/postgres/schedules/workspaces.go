package schedules

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain/board"
	"everloop/domain/schedule"
	"everloop/infra/postgres/pg"
)

// visible is the right of @user to read a scheduled task, and its runs: their own, and those
// that name a production workspace of which they and the owner are members. It is the right
// to read sessions that name a workspace.
const visible = `(owner_id = @user OR workspace_id IS NOT NULL AND EXISTS (
	SELECT 1 FROM prod_workspace_members o JOIN prod_workspace_members m ON m.workspace_id = o.workspace_id AND m.user_id = @user
	WHERE  o.workspace_id = scheduled_tasks.workspace_id AND o.user_id = scheduled_tasks.owner_id))`

// maxWorkspaceTasks bounds a list of the tasks of a workspace.
const maxWorkspaceTasks = 2000

// WorkspaceTasks lists the tasks of a production workspace that a user may see, the newest
// first, at most 2,000.
func (s *Store) WorkspaceTasks(ctx context.Context, userID, workspaceID string) ([]schedule.Task, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+taskColumns+` FROM scheduled_tasks
		WHERE  workspace_id = @workspace AND `+visible+` AND deleted_at IS NULL ORDER BY id DESC LIMIT @most`,
		pgx.NamedArgs{"workspace": workspaceID, "user": userID, "most": maxWorkspaceTasks})
	tasks, err := pgx.CollectRows(rows, scanTask)

	return tasks, pg.Fault("list the scheduled tasks of a workspace", err)
}

// notOwn is the error for a change of a task that is not the user's: one that they may only
// see is forbidden, any other does not exist for them.
func notOwn(ctx context.Context, q pg.Queryer, userID, id string) error {
	rows, _ := q.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM scheduled_tasks WHERE id = @id AND `+visible+` AND deleted_at IS NULL)`,
		pgx.NamedArgs{"id": id, "user": userID})
	seen, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])

	switch {
	case err != nil:
		return err
	case seen:
		return schedule.NotOwnerOfTask()
	default:
		return taskNotFound(id)
	}
}

// checkNewWorkspace rejects a production workspace of which the owner of a task is no member,
// unless the task has named it before.
func checkNewWorkspace(ctx context.Context, tx pgx.Tx, ownerID string, before, now *string) error {
	if now == nil || before != nil && *before == *now {
		return nil
	}

	var member bool

	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM prod_workspace_members WHERE workspace_id = $1 AND user_id = $2)`, *now, ownerID).Scan(&member)
	if err == nil && !member {
		err = board.WorkspaceNotFound(*now)
	}

	return err
}
