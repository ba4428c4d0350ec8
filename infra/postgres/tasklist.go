package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
)

// BackgroundTasks lists the background tasks of a session, newest first. The
// caller has been let in to the session.
func (db *DB) BackgroundTasks(ctx context.Context, sessionID string) ([]domain.BackgroundTask, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+taskColumns+` FROM background_tasks b WHERE b.session_id = $1 ORDER BY b.id DESC`, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.BackgroundTask])
	return tasks, fault("list background tasks", err)
}

// BackgroundTask reads one task of a session, where its output is kept, and as
// which user the session's files are.
func (db *DB) BackgroundTask(ctx context.Context, sessionID, taskID string) (task domain.BackgroundTask, outputPath string, sandboxUID int, err error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+taskColumns+` FROM background_tasks b WHERE b.session_id = $1 AND b.id = $2`, sessionID, taskID)
	task, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.BackgroundTask])
	if err == nil {
		err = db.Pool.QueryRow(ctx, `
			SELECT b.output_path, s.sandbox_uid FROM background_tasks b JOIN sessions s ON s.id = b.session_id
			WHERE  b.id = $1`, taskID).Scan(&outputPath, &sandboxUID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return task, "", 0, taskNotFound(taskID)
	}
	return task, outputPath, sandboxUID, fault("read background task", err)
}

// RequestTaskStop flags a running task to be stopped; what carries it out looks
// at the flag. One that has ended stays as it is.
func (j *Journal) RequestTaskStop(ctx context.Context, sessionID, taskID string) (task domain.BackgroundTask, err error) {
	err = j.Commit(ctx, func(c *Change) error {
		var first bool
		err := c.QueryRow(ctx, `
			SELECT status = 'running' AND NOT stop_requested FROM background_tasks
			WHERE  session_id = $1 AND id = $2 FOR UPDATE`, sessionID, taskID).Scan(&first)
		if errors.Is(err, pgx.ErrNoRows) {
			return taskNotFound(taskID)
		}
		if err != nil {
			return err
		}
		task, err = taskRow(ctx, c, `
			UPDATE background_tasks b SET stop_requested = stop_requested OR $3
			WHERE  b.session_id = $1 AND b.id = $2 RETURNING `+taskColumns, sessionID, taskID, first)
		if err != nil || !first {
			return err
		}
		return emitTask(c, task)
	})
	return task, fault("stop background task", err)
}

// RequestTaskStops flags every running task of a session, which is about to be
// deleted, and gives them.
func (db *DB) RequestTaskStops(ctx context.Context, sessionID string) ([]domain.BackgroundTask, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE background_tasks b SET stop_requested = true
		WHERE  b.session_id = $1 AND b.status = 'running' RETURNING `+taskColumns, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.BackgroundTask])
	return tasks, fault("stop background tasks", err)
}

// UnclaimedTasks gives what is needed to start the runs of tasks that none has
// claimed for longer than age: the start was lost.
func (db *DB) UnclaimedTasks(ctx context.Context, age time.Duration) ([]contract.TaskInput, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT b.id, b.session_id, s.owner_id, b.title
		FROM   background_tasks b JOIN sessions s ON s.id = b.session_id
		WHERE  b.status = 'running' AND b.attempt = 0 AND b.kind = 'shell' AND b.started_at < now() - $1::interval
		ORDER  BY b.id LIMIT 500`, age)
	tasks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (in contract.TaskInput, err error) {
		return in, row.Scan(&in.TaskID, &in.SessionID, &in.OwnerID, &in.Title)
	})
	return tasks, fault("list unclaimed tasks", err)
}

// ForsakenTasks gives the running tasks whose worker has said nothing for longer
// than age after its lease ended.
func (db *DB) ForsakenTasks(ctx context.Context, age time.Duration) ([]string, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT id FROM background_tasks
		WHERE  status = 'running' AND attempt > 0 AND lease_expires_at < now() - $1::interval ORDER BY id LIMIT 500`, age)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, fault("list forsaken tasks", err)
}
