package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
)

const taskColumns = `
	b.id, b.session_id, b.kind, b.title, b.command, b.status, b.pid, b.exit_code, b.reason, b.started_at, b.finished_at,
	b.last_output_at, b.output_bytes, b.tool_call_id, b.owner_run_id, b.lease_expires_at, b.stop_requested, b.detached`

// taskLease is how long a task counts as alive after its worker's last word.
const taskLease = 30 * time.Second

// maxRunningTasks bounds the background tasks of a session that run at once.
const maxRunningTasks = 20

func taskNotFound(id string) error {
	return domain.Newf(domain.NotFound, "task_not_found", "background task %s does not exist", id)
}

// taskUpdated is the payload of background_task:updated: the task without the
// session's id, which the envelope has.
type taskUpdated struct {
	domain.BackgroundTask
	SessionID string `json:"session_id,omitempty"`
}

// emitTask tells how a task stands.
func emitTask(c *Change, task domain.BackgroundTask) error {
	return c.Emit(task.SessionID, "", domain.EventTaskUpdated, taskUpdated{BackgroundTask: task})
}

// AddTask makes a background task durable; its work begins when a run claims it.
// The same id again gives the task that is there.
func (j *Journal) AddTask(ctx context.Context, in contract.NewTask) (task domain.BackgroundTask, err error) {
	err = j.Commit(ctx, func(c *Change) error {
		if _, err := lockSession(ctx, c, in.SessionID, ""); err != nil {
			return err
		}
		task, err = taskRow(ctx, c, `SELECT `+taskColumns+` FROM background_tasks b WHERE b.id = $1 AND b.session_id = $2`, in.ID, in.SessionID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var running int
		if err := c.QueryRow(ctx, `
			SELECT count(*) FROM background_tasks WHERE session_id = $1 AND status = 'running'`, in.SessionID).Scan(&running); err != nil {
			return err
		}
		if running >= maxRunningTasks {
			return domain.Newf(domain.Conflict, "too_many_tasks", "%d background tasks of this session run already, which is the limit", running)
		}
		task, err = taskRow(ctx, c, `
			INSERT INTO background_tasks AS b (id, session_id, chat_id, tool_call_id, kind, title, command, status, output_path)
			VALUES ($1, $2, nullif($3, ''), nullif($4, ''), $5, $6, nullif($7, ''), 'running', $8)
			RETURNING `+taskColumns,
			in.ID, in.SessionID, in.ChatID, in.ToolCallID, in.Kind, in.Title, in.Command, in.OutputPath)
		if err != nil {
			return err
		}
		return emitTask(c, task)
	})
	return task, fault("add background task", err)
}

func taskRow(ctx context.Context, tx pgx.Tx, sql string, args ...any) (domain.BackgroundTask, error) {
	rows, _ := tx.Query(ctx, sql, args...)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.BackgroundTask])
}

// ClaimTask gives a task's work to an attempt of its run, committed before
// anything is executed. The work of an earlier attempt is never done again: it
// may have had effects, so the task is lost with its worker. Only the attempt
// that has it and has not started its process yet may ask again.
func (j *Journal) ClaimTask(ctx context.Context, taskID, runID string, attempt int) (claim contract.ClaimedTask, err error) {
	var session string
	err = j.Commit(ctx, func(c *Change) error {
		var before int
		var owner string
		var begun, stop, deleted bool
		claim = contract.ClaimedTask{ID: taskID, Attempt: attempt}
		err := c.QueryRow(ctx, `
			SELECT b.session_id, b.status, b.attempt, b.owner_run_id, b.pid IS NOT NULL, b.stop_requested, coalesce(b.command, ''), b.output_path,
			       s.deleted_at IS NOT NULL
			FROM   background_tasks b JOIN sessions s ON s.id = b.session_id
			WHERE  b.id = $1 FOR UPDATE OF b`, taskID).
			Scan(&session, &claim.Status, &before, &owner, &begun, &stop, &claim.Command, &claim.OutputPath, &deleted)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return taskNotFound(taskID)
		case err != nil:
			return err
		case claim.Status != domain.TaskRunning:
			return nil
		case before != 0 && (before != attempt || owner != runID || begun):
			claim.Status = domain.TaskLost
			return endTask(ctx, c, taskID, contract.TaskEnd{
				Status: domain.TaskLost, Reason: "its worker was lost; it was not run again because it may have had effects",
			})
		case stop || deleted:
			claim.Status = domain.TaskStopped
			return endTask(ctx, c, taskID, contract.TaskEnd{Status: domain.TaskStopped})
		}
		_, err = c.Exec(ctx, `
			UPDATE background_tasks SET attempt = $2, owner_run_id = $3, lease_expires_at = now() + $4::interval
			WHERE  id = $1`, taskID, attempt, runID, taskLease)
		return err
	})
	if err != nil || claim.Status != domain.TaskRunning {
		return claim, fault("claim background task", err)
	}
	claim.Session, err = j.sessionByID(ctx, session)
	return claim, err
}

// TaskStarted notes the process of a task.
func (j *Journal) TaskStarted(ctx context.Context, taskID string, attempt, pid int) error {
	return j.Commit(ctx, func(c *Change) error {
		task, err := taskRow(ctx, c, `
			UPDATE background_tasks b SET pid = $3 WHERE id = $1 AND attempt = $2 AND status = 'running'
			RETURNING `+taskColumns, taskID, attempt, pid)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.ErrFenced
		}
		if err != nil {
			return fault("note a task's process", err)
		}
		return emitTask(c, task)
	})
}

// TaskAlive renews the lease of a task and keeps how much it has written. It
// tells whether the task is to stop, and domain.ErrFenced when this attempt has
// it no longer.
func (j *Journal) TaskAlive(ctx context.Context, taskID string, attempt int, bytes int64, lastOutput time.Time) (stop bool, err error) {
	err = j.Pool.QueryRow(ctx, `
		UPDATE background_tasks
		SET    output_bytes = $3, last_output_at = coalesce($4, last_output_at), lease_expires_at = now() + $5::interval
		WHERE  id = $1 AND attempt = $2 AND status = 'running' RETURNING stop_requested`,
		taskID, attempt, bytes, nullTime(lastOutput), taskLease).Scan(&stop)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, domain.ErrFenced
	}
	return stop, fault("renew a task's lease", err)
}

func nullTime(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// EndTask records the end of a task that this attempt still has.
func (j *Journal) EndTask(ctx context.Context, taskID string, attempt int, end contract.TaskEnd) error {
	return j.Commit(ctx, func(c *Change) error {
		var one int
		err := c.QueryRow(ctx, `
			SELECT 1 FROM background_tasks WHERE id = $1 AND attempt = $2 AND status = 'running' FOR UPDATE`, taskID, attempt).Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.ErrFenced
		}
		if err != nil {
			return fault("end background task", err)
		}
		return endTask(ctx, c, taskID, end)
	})
}

// LoseTask ends a task whose work is gone, and gives how it stands; one that has
// ended stays as it is.
func (j *Journal) LoseTask(ctx context.Context, taskID, reason string) (status domain.TaskStatus, err error) {
	err = j.Commit(ctx, func(c *Change) error {
		err := c.QueryRow(ctx, `SELECT status FROM background_tasks WHERE id = $1 FOR UPDATE`, taskID).Scan(&status)
		if errors.Is(err, pgx.ErrNoRows) {
			return taskNotFound(taskID)
		}
		if err != nil || status != domain.TaskRunning {
			return err
		}
		status = domain.TaskLost
		return endTask(ctx, c, taskID, contract.TaskEnd{Status: domain.TaskLost, Reason: reason})
	})
	return status, fault("lose background task", err)
}

// endTask writes the end of a running task and tells of it. The caller holds its
// row.
func endTask(ctx context.Context, c *Change, taskID string, end contract.TaskEnd) error {
	task, err := taskRow(ctx, c, `
		UPDATE background_tasks b
		SET    status = @status, exit_code = @exit, reason = nullif(@reason, ''), finished_at = now(), lease_expires_at = NULL,
		       pid = NULL, output_bytes = greatest(output_bytes, @bytes), last_output_at = coalesce(@last, last_output_at)
		WHERE  id = @id AND status = 'running'
		RETURNING `+taskColumns,
		pgx.NamedArgs{
			"id": taskID, "status": end.Status, "exit": end.ExitCode, "reason": end.Reason,
			"bytes": end.OutputBytes, "last": nullTime(end.LastOutputAt),
		})
	if err != nil {
		return fault("end background task", err)
	}
	return emitTask(c, task)
}
