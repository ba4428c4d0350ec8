package sessions

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

const sessionTaskColumns = `id, subject, description, status, owner, blocked_by, created_at, updated_at`

// SessionTasks lists the agent's task list of a session in the order in which it
// was asked for, which the ids have: calls of one turn run side by side, and any
// of them may be written first. The caller may read the session.
func (db *Base) SessionTasks(ctx context.Context, sessionID domain.SessionID) ([]domain.SessionTask, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+sessionTaskColumns+` FROM session_tasks WHERE session_id = $1 ORDER BY id`, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.SessionTask])

	return tasks, pg.Fault("list session tasks", err)
}

// AddSessionTask appends an entry to the task list under an id that its caller
// chose, so that a repeated call finds the entry already there.
func (db *Base) AddSessionTask(
	ctx context.Context,
	sessionID domain.SessionID,
	id string,
	in domain.SessionTaskChange,
) (domain.SessionTask, error) {
	if in.Subject == nil {
		return domain.SessionTask{}, domain.Invalidf("subject", "is required")
	}

	var task domain.SessionTask

	err := db.InTx(ctx, func(tx pgx.Tx) error {
		// The session's row orders additions, so that positions stay unique.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM sessions WHERE id = $1 FOR NO KEY UPDATE`, sessionID); err != nil {
			return err
		}

		if err := checkBlockers(ctx, tx, sessionID, id, in.BlockedBy); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			INSERT INTO session_tasks (id, session_id, subject, description, status, owner, blocked_by, position)
			SELECT @id, @session, @subject, coalesce(@description, ''), coalesce(@status, 'pending'), nullif(@owner, ''),
			       coalesce(@blocked_by::text[], '{}'), coalesce(max(position), 0) + 1
			FROM   session_tasks WHERE session_id = @session
			ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE session_tasks.session_id = excluded.session_id
			RETURNING `+sessionTaskColumns,
			taskArgs(sessionID, id, in))

		var err error

		task, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.SessionTask])

		return err
	})

	return task, pg.Fault("add session task", err)
}

func taskArgs(sessionID domain.SessionID, id string, in domain.SessionTaskChange) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": id, "session": sessionID, "subject": in.Subject, "description": in.Description, "status": in.Status,
		"owner": in.Owner, "blocked_by": in.BlockedBy,
	}
}

// checkBlockers refuses entries that the session does not have, and the entry itself.
func checkBlockers(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, id string, blockers *[]string) error {
	if blockers == nil {
		return nil
	}

	var unknown string

	err := tx.QueryRow(ctx, `
		SELECT b FROM unnest($3::text[]) AS b
		WHERE  b = $2 OR NOT EXISTS (SELECT 1 FROM session_tasks t WHERE t.id = b AND t.session_id = $1)
		    LIMIT 1`, sessionID, id, *blockers).Scan(&unknown)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	if err != nil {
		return err
	}

	return domain.Newf(domain.NotFound, "task_not_found", "task %s, which must be done first, is not another task of this session", unknown)
}

// ChangeSessionTask changes an entry of the session's task list. An empty owner is
// none.
func (db *Base) ChangeSessionTask(
	ctx context.Context,
	sessionID domain.SessionID,
	id string,
	in domain.SessionTaskChange,
) (domain.SessionTask, error) {
	var task domain.SessionTask

	err := db.InTx(ctx, func(tx pgx.Tx) error {
		if err := checkBlockers(ctx, tx, sessionID, id, in.BlockedBy); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			UPDATE session_tasks
			SET    subject = coalesce(@subject, subject), description = coalesce(@description, description),
			       status = coalesce(@status, status), owner = nullif(coalesce(@owner, owner), ''),
			       blocked_by = coalesce(@blocked_by::text[], blocked_by), updated_at = now()
			WHERE  id = @id AND session_id = @session
			RETURNING `+sessionTaskColumns, taskArgs(sessionID, id, in))

		var err error

		task, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.SessionTask])

		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.SessionTask{}, domain.Newf(domain.NotFound, "task_not_found", "task %s does not exist", id)
	}

	return task, pg.Fault("change session task", err)
}
