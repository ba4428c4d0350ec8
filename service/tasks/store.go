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

// Store reads and writes background tasks. Their events are committed with their rows.
type Store struct {
	db     *pg.DB
	outbox *pg.Outbox
}

// NewStore returns a store that commits through an outbox.
func NewStore(db *pg.DB, outbox *pg.Outbox) *Store { return &Store{db, outbox} }

// taskLease is how long a task counts as alive after the last heartbeat of its worker.
const taskLease = 30 * time.Second

// maxRunningTasks bounds the running background tasks of a session.
const maxRunningTasks = 20

func taskNotFound(id string) error {
	return domain.Newf(domain.NotFound, "task_not_found", "background task %s does not exist", id)
}

// AddTask stores a background task. Its work starts when a run claims it. AddTask is idempotent by
// the id: a repeated call returns the stored task.
func (s *Store) AddTask(ctx context.Context, in contract.NewTask) (task domain.BackgroundTask, err error) {
	err = s.outbox.Update(ctx, func(tx *pg.Tx) error {
		if _, err := sessions.Lock(ctx, tx, in.SessionID, ""); err != nil {
			return err
		}

		task, err = sessions.TaskRow(ctx, tx, `SELECT `+sessions.TaskColumns+` FROM background_tasks b WHERE b.id = $1
			AND b.session_id = $2`, in.ID, in.SessionID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}

		var running int
		if err := tx.QueryRow(ctx, `
			SELECT count(*) FROM background_tasks WHERE session_id = $1 AND status = 'running'`, in.SessionID).Scan(&running); err != nil {
			return err
		}

		if running >= maxRunningTasks {
			return domain.Newf(domain.Conflict, "too_many_tasks", "%d background tasks of this session are running, which is the "+
				"limit", running)
		}

		task, err = sessions.TaskRow(ctx, tx, `
			INSERT INTO background_tasks AS b (id, session_id, chat_id, tool_call_id, kind, title, command, status, output_path)
			VALUES ($1, $2, nullif($3, ''), nullif($4, ''), $5, $6, nullif($7, ''), 'running', $8)
			RETURNING `+sessions.TaskColumns,
			in.ID, in.SessionID, in.ChatID, in.ToolCallID, in.Kind, in.Title, in.Command, in.OutputPath)
		if err != nil {
			return err
		}

		return sessions.EmitTask(tx, task)
	})

	return task, pg.Fault("add background task", err)
}

// ClaimTask assigns the work of a task to an attempt of its run, and commits before anything is
// executed. While the lease of an earlier attempt lasts, the claim is Held. After that lease has
// expired the task is lost, because its work can have had effects and must not run again. The
// attempt that has the task can repeat its claim until it has started the process.
func (s *Store) ClaimTask(ctx context.Context, taskID, runID string, attempt int) (claim contract.ClaimedTask, err error) {
	var session domain.SessionID

	err = s.outbox.Update(ctx, func(tx *pg.Tx) error {
		var (
			before                       int
			owner                        string
			started, held, stop, deleted bool
		)

		claim = contract.ClaimedTask{ID: taskID, Attempt: attempt}

		err := tx.QueryRow(ctx, `
			SELECT b.session_id, b.status, b.attempt, b.owner_run_id, b.pid IS NOT NULL,
			       coalesce(b.lease_expires_at > now(), false), b.stop_requested, coalesce(b.command, ''), coalesce(b.script, ''),
			           b.output_path,
			       s.deleted_at IS NOT NULL
			FROM   background_tasks b JOIN sessions s ON s.id = b.session_id
			WHERE  b.id = $1 FOR UPDATE OF b`, taskID).
			Scan(
				&session, &claim.Status, &before, &owner, &started, &held, &stop,
				&claim.Command, &claim.Script, &claim.OutputPath, &deleted,
			)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return taskNotFound(taskID)
		case err != nil:
			return err
		case claim.Status != domain.TaskRunning:
			return nil
		case before != 0 && (before != attempt || owner != runID || started) && held:
			claim.Held = true
			return nil
		case before != 0 && (before != attempt || owner != runID || started):
			claim.Status = domain.TaskLost

			return sessions.EndTask(ctx, tx, taskID, contract.TaskEnd{
				Status: domain.TaskLost, Reason: "its worker was lost; it was not run again because it may have had effects",
			})
		case stop || deleted:
			claim.Status = domain.TaskStopped
			return sessions.EndTask(ctx, tx, taskID, contract.TaskEnd{Status: domain.TaskStopped})
		}

		_, err = tx.Exec(ctx, `
			UPDATE background_tasks SET attempt = $2, owner_run_id = $3, lease_expires_at = now() + $4::interval
			WHERE  id = $1`, taskID, attempt, runID, taskLease)

		return err
	})
	if err != nil || claim.Status != domain.TaskRunning || claim.Held {
		return claim, pg.Fault("claim background task", err)
	}

	claim.Session, err = sessions.ByID(ctx, s.db.Pool, session)

	return claim, err
}

// TaskStatus returns the status of a task, or task_not_found.
func (s *Store) TaskStatus(ctx context.Context, taskID string) (status domain.TaskStatus, err error) {
	err = s.db.Pool.QueryRow(ctx, `SELECT status FROM background_tasks WHERE id = $1`, taskID).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		err = taskNotFound(taskID)
	}

	return status, pg.Fault("read a task's status", err)
}

// TaskStarted records the process of a task. The error is domain.ErrFenced when another attempt
// has the task.
func (s *Store) TaskStarted(ctx context.Context, taskID string, attempt, pid int) error {
	return s.outbox.Update(ctx, func(tx *pg.Tx) error {
		task, err := sessions.TaskRow(ctx, tx, `
			UPDATE background_tasks b SET pid = $3 WHERE id = $1 AND attempt = $2 AND status = 'running'
			RETURNING `+sessions.TaskColumns, taskID, attempt, pid)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.ErrFenced
		}

		if err != nil {
			return pg.Fault("record the process of a task", err)
		}

		return sessions.EmitTask(tx, task)
	})
}

// TaskAlive renews the lease of a task and records the size of its output. It reports whether a
// stop was requested. The error is domain.ErrFenced when this attempt does not have the task any
// longer.
func (s *Store) TaskAlive(ctx context.Context, taskID string, attempt int, bytes int64, lastOutput time.Time) (stop bool, err error) {
	err = s.db.Pool.Leases().QueryRow(ctx, `
		UPDATE background_tasks
		SET    output_bytes = $3, last_output_at = coalesce($4, last_output_at), lease_expires_at = now() + $5::interval
		WHERE  id = $1 AND attempt = $2 AND status = 'running' RETURNING stop_requested`,
		taskID, attempt, bytes, sessions.NullTime(lastOutput), taskLease).Scan(&stop)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, domain.ErrFenced
	}

	return stop, pg.Fault("renew a task's lease", err)
}

// EndTask records the end of a task. The error is domain.ErrFenced when this attempt does not have
// it any longer.
func (s *Store) EndTask(ctx context.Context, taskID string, attempt int, end contract.TaskEnd) error {
	return s.outbox.Update(ctx, func(tx *pg.Tx) error {
		var one int

		err := tx.QueryRow(ctx, `
			SELECT 1 FROM background_tasks WHERE id = $1 AND attempt = $2 AND status = 'running' FOR UPDATE`, taskID, attempt).Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.ErrFenced
		}

		if err != nil {
			return pg.Fault("end background task", err)
		}

		return sessions.EndTask(ctx, tx, taskID, end)
	})
}

// MarkTaskLost ends a running task as lost, and returns the status of the task. A task that has
// ended is unchanged.
func (s *Store) MarkTaskLost(ctx context.Context, taskID, reason string) (status domain.TaskStatus, err error) {
	err = s.outbox.Update(ctx, func(tx *pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT status FROM background_tasks WHERE id = $1 FOR UPDATE`, taskID).Scan(&status)
		if errors.Is(err, pgx.ErrNoRows) {
			return taskNotFound(taskID)
		}

		if err != nil || status != domain.TaskRunning {
			return err
		}

		status = domain.TaskLost

		return sessions.EndTask(ctx, tx, taskID, contract.TaskEnd{Status: domain.TaskLost, Reason: reason})
	})

	return status, pg.Fault("lose background task", err)
}
