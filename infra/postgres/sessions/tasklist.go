package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// BackgroundTasks lists the background tasks of a session, newest first. The
// caller may read the session.
func (db *Base) BackgroundTasks(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+taskColumns+` FROM background_tasks b WHERE b.session_id = $1 ORDER BY b.id DESC`, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.BackgroundTask])

	return tasks, pg.Fault("list background tasks", err)
}

// BackgroundTask reads one task of a session, where its output is kept, and as
// which user the session's files are.
func (db *Base) BackgroundTask(
	ctx context.Context,
	sessionID domain.SessionID, taskID string,
) (task domain.BackgroundTask, outputPath string, sandboxUID int, err error) {
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

	return task, outputPath, sandboxUID, pg.Fault("read background task", err)
}

// RequestTaskStop flags a running task to be stopped; what carries it out looks
// at the flag. One that has ended stays as it is.
func (s *Store) RequestTaskStop(ctx context.Context, sessionID domain.SessionID, taskID string) (task domain.BackgroundTask, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
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

		task, err = taskRow(ctx, tx, `
			UPDATE background_tasks b SET stop_requested = stop_requested OR $3
			WHERE  b.session_id = $1 AND b.id = $2 RETURNING `+taskColumns, sessionID, taskID, first)
		if err != nil || !first {
			return err
		}

		return emitTask(tx, task)
	})

	return task, pg.Fault("stop background task", err)
}

// RequestTaskStops flags every running task of a session, which is about to be
// deleted, and gives them.
func (db *Base) RequestTaskStops(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE background_tasks b SET stop_requested = true
		WHERE  b.session_id = $1 AND b.status = 'running' RETURNING `+taskColumns, sessionID)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.BackgroundTask])

	return tasks, pg.Fault("stop background tasks", err)
}

// UnclaimedTasks returns what is needed to start the runs of tasks that none has
// claimed for longer than age: the start was lost. They are at most limit, in the order of
// their ids and after one.
func (db *Base) UnclaimedTasks(ctx context.Context, age time.Duration, after string, limit int) ([]contract.TaskInput, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT b.id, b.session_id, s.owner_id
		FROM   background_tasks b JOIN sessions s ON s.id = b.session_id
		WHERE  b.status = 'running' AND b.attempt = 0 AND b.kind = 'shell' AND b.started_at < now() - $1::interval AND b.id > $2
		ORDER  BY b.id LIMIT $3`, age, after, limit)
	tasks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (in contract.TaskInput, err error) {
		return in, row.Scan(&in.TaskID, &in.SessionID, &in.OwnerID)
	})

	return tasks, pg.Fault("list unclaimed tasks", err)
}

// AbandonedTasks returns the running tasks whose worker has sent no heartbeat for longer
// than age after its lease ended: at most limit, in the order of their ids and after one.
func (db *Base) AbandonedTasks(ctx context.Context, age time.Duration, after string, limit int) ([]string, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT id FROM background_tasks
		WHERE  status = 'running' AND attempt > 0 AND lease_expires_at < now() - $1::interval AND id > $2
		ORDER  BY id LIMIT $3`, age, after, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list abandoned tasks", err)
}
