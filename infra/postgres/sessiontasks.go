package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

const sessionTaskColumns = `id, subject, description, status, created_at, updated_at`

// SessionTasks lists the agent's task list of a session in the order in which it
// was asked for, which the ids have: calls of one turn run side by side, and any
// of them may be written first. The caller has been let in to the session.
func (db *DB) SessionTasks(ctx context.Context, sessionID string) ([]domain.SessionTask, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+sessionTaskColumns+` FROM session_tasks WHERE session_id = $1 ORDER BY id`, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.SessionTask])
	return tasks, fault("list session tasks", err)
}

// AddSessionTask appends an entry to the task list under an id that its caller
// chose, so that a repeated call finds the entry already there.
func (db *DB) AddSessionTask(ctx context.Context, sessionID, id string, in domain.SessionTaskChange) (domain.SessionTask, error) {
	if in.Subject == nil {
		return domain.SessionTask{}, domain.Invalidf("subject", "is required")
	}
	var task domain.SessionTask
	err := db.InTx(ctx, func(tx pgx.Tx) error {
		// The session's row orders additions, so that positions stay unique.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM sessions WHERE id = $1 FOR NO KEY UPDATE`, sessionID); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, `
			INSERT INTO session_tasks (id, session_id, subject, description, status, position)
			SELECT @id, @session, @subject, coalesce(@description, ''), coalesce(@status, 'pending'), coalesce(max(position), 0) + 1
			FROM   session_tasks WHERE session_id = @session
			ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE session_tasks.session_id = excluded.session_id
			RETURNING `+sessionTaskColumns,
			pgx.NamedArgs{
				"id": id, "session": sessionID, "subject": in.Subject, "description": in.Description, "status": in.Status,
			})
		var err error
		task, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.SessionTask])
		return err
	})
	return task, fault("add session task", err)
}

// ChangeSessionTask changes an entry of the session's task list.
func (db *DB) ChangeSessionTask(ctx context.Context, sessionID, id string, in domain.SessionTaskChange) (domain.SessionTask, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE session_tasks
		SET    subject = coalesce(@subject, subject), description = coalesce(@description, description),
		       status = coalesce(@status, status), updated_at = now()
		WHERE  id = @id AND session_id = @session
		RETURNING `+sessionTaskColumns,
		pgx.NamedArgs{
			"id": id, "session": sessionID, "subject": in.Subject, "description": in.Description, "status": in.Status,
		})
	task, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.SessionTask])
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.SessionTask{}, domain.Newf(domain.NotFound, "task_not_found", "task %s does not exist", id)
	}
	return task, fault("change session task", err)
}
