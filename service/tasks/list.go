package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// List returns the background tasks of a session, newest first. The caller has checked that the
// session can be read.
func (s *Store) List(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+sessions.TaskColumns+` FROM background_tasks b WHERE b.session_id = $1 ORDER BY b.id DESC`, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.BackgroundTask])

	return tasks, pg.Fault("list background tasks", err)
}

// Task returns one task of a session, the path of its output, and the system user of the session's
// files. The error is task_not_found.
func (s *Store) Task(
	ctx context.Context,
	sessionID domain.SessionID, taskID string,
) (task domain.BackgroundTask, outputPath string, sandboxUID int, err error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+sessions.TaskColumns+` FROM background_tasks b WHERE b.session_id = $1 AND b.id = $2`, sessionID, taskID)

	task, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.BackgroundTask])
	if err == nil {
		err = s.db.Pool.QueryRow(ctx, `
			SELECT b.output_path, s.sandbox_uid FROM background_tasks b JOIN sessions s ON s.id = b.session_id
			WHERE  b.id = $1`, taskID).Scan(&outputPath, &sandboxUID)
	}

	if errors.Is(err, pgx.ErrNoRows) {
		return task, "", 0, taskNotFound(taskID)
	}

	return task, outputPath, sandboxUID, pg.Fault("read background task", err)
}

// RequestTaskStop sets the stop flag of a running task, which its worker reads. A task that has
// ended is unchanged.
func (s *Store) RequestTaskStop(ctx context.Context, sessionID domain.SessionID, taskID string) (task domain.BackgroundTask, err error) {
	err = s.outbox.Update(ctx, func(tx *pg.Tx) error {
		var first bool

		err := tx.QueryRow(ctx, `
			SELECT status = 'running' AND NOT stop_requested FROM background_tasks
			WHERE  session_id = $1 AND id = $2 FOR UPDATE`, sessionID, taskID).Scan(&first)
		if errors.Is(err, pgx.ErrNoRows) {
			return taskNotFound(taskID)
		}

		if err != nil {
			return err
		}

		task, err = sessions.TaskRow(ctx, tx, `
			UPDATE background_tasks b SET stop_requested = stop_requested OR $3
			WHERE  b.session_id = $1 AND b.id = $2 RETURNING `+sessions.TaskColumns, sessionID, taskID, first)
		if err != nil || !first {
			return err
		}

		return sessions.EmitTask(tx, task)
	})

	return task, pg.Fault("stop background task", err)
}

// RequestTaskStops sets the stop flag of all running tasks of a session, and returns these tasks.
func (s *Store) RequestTaskStops(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		UPDATE background_tasks b SET stop_requested = true
		WHERE  b.session_id = $1 AND b.status = 'running' RETURNING `+sessions.TaskColumns, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.BackgroundTask])

	return tasks, pg.Fault("stop background tasks", err)
}

// UnclaimedTasks returns the inputs of tasks whose start was lost: no run has claimed them for
// longer than age. It returns at most limit, ordered by id, with ids after the given one.
func (s *Store) UnclaimedTasks(ctx context.Context, age time.Duration, after string, limit int) ([]contract.TaskInput, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT b.id, b.session_id, s.owner_id
		FROM   background_tasks b JOIN sessions s ON s.id = b.session_id
		WHERE  b.status = 'running' AND b.attempt = 0 AND b.kind = 'shell' AND b.started_at < now() - $1::interval AND b.id > $2
		ORDER  BY b.id LIMIT $3`, age, after, limit)
	tasks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (in contract.TaskInput, err error) {
		return in, row.Scan(&in.TaskID, &in.SessionID, &in.OwnerID)
	})

	return tasks, pg.Fault("list unclaimed tasks", err)
}

// AbandonedTasks returns the running tasks whose lease expired longer than age ago: at most limit,
// ordered by id, with ids after the given one.
func (s *Store) AbandonedTasks(ctx context.Context, age time.Duration, after string, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT id FROM background_tasks
		WHERE  status = 'running' AND attempt > 0 AND lease_expires_at < now() - $1::interval AND id > $2
		ORDER  BY id LIMIT $3`, age, after, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list abandoned tasks", err)
}
