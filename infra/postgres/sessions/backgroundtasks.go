package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/pg"
)

// taskColumns name a task's parent by the sub-agent whose call started it.
const taskColumns = `
	b.id, b.session_id, b.kind, b.title, b.command, b.status, b.pid, b.exit_code, b.reason, b.started_at, b.finished_at,
	b.last_output_at, b.output_bytes, b.tool_call_id, b.owner_run_id, b.lease_expires_at, b.stop_requested, b.detached,
	(SELECT l.task_id FROM tool_calls c JOIN entries e ON e.id = c.entry_id JOIN loops l ON l.id = e.loop_id
	 WHERE  c.id = b.tool_call_id) AS parent_task_id`

// taskLease is how long a task counts as alive after its worker's last word.
const taskLease = 30 * time.Second

// maxRunningTasks bounds the background tasks of a session that run at once.
const maxRunningTasks = 20

func taskNotFound(id string) error {
	return domain.Newf(domain.NotFound, "task_not_found", "background task %s does not exist", id)
}

// emitTask publishes the state of a task.
func emitTask(tx *pg.Tx, task domain.BackgroundTask) error {
	return tx.Emit(task.SessionID, "", domain.EventTaskUpdated, domain.TaskUpdated{BackgroundTask: task})
}

// AddTask makes a background task durable; its work starts when a run claims it.
// The same id again gives the task that is there.
func (s *Store) AddTask(ctx context.Context, in contract.NewTask) (task domain.BackgroundTask, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		if _, err := Lock(ctx, tx, in.SessionID, ""); err != nil {
			return err
		}

		task, err = taskRow(ctx, tx, `SELECT `+taskColumns+` FROM background_tasks b WHERE b.id = $1
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
			return domain.Newf(domain.Conflict, "too_many_tasks", "%d background tasks of this session run already, which is the "+
				"limit", running)
		}

		task, err = taskRow(ctx, tx, `
			INSERT INTO background_tasks AS b (id, session_id, chat_id, tool_call_id, kind, title, command, status, output_path)
			VALUES ($1, $2, nullif($3, ''), nullif($4, ''), $5, $6, nullif($7, ''), 'running', $8)
			RETURNING `+taskColumns,
			in.ID, in.SessionID, in.ChatID, in.ToolCallID, in.Kind, in.Title, in.Command, in.OutputPath)
		if err != nil {
			return err
		}

		return emitTask(tx, task)
	})

	return task, pg.Fault("add background task", err)
}

func taskRow(ctx context.Context, tx pgx.Tx, sql string, args ...any) (domain.BackgroundTask, error) {
	rows, _ := tx.Query(ctx, sql, args...)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.BackgroundTask])
}

// ClaimTask gives a task's work to an attempt of its run, committed before
// anything is executed. While the lease of an earlier attempt lasts, the task is
// held. After that its work is never done again: it may have had effects, so the
// task is lost with its worker. Only the attempt that has it and has not started
// its process yet may ask again.
func (s *Store) ClaimTask(ctx context.Context, taskID, runID string, attempt int) (claim contract.ClaimedTask, err error) {
	var session domain.SessionID

	err = s.Update(ctx, func(tx *pg.Tx) error {
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

			return endTask(ctx, tx, taskID, contract.TaskEnd{
				Status: domain.TaskLost, Reason: "its worker was lost; it was not run again because it may have had effects",
			})
		case stop || deleted:
			claim.Status = domain.TaskStopped
			return endTask(ctx, tx, taskID, contract.TaskEnd{Status: domain.TaskStopped})
		}

		_, err = tx.Exec(ctx, `
			UPDATE background_tasks SET attempt = $2, owner_run_id = $3, lease_expires_at = now() + $4::interval
			WHERE  id = $1`, taskID, attempt, runID, taskLease)

		return err
	})
	if err != nil || claim.Status != domain.TaskRunning || claim.Held {
		return claim, pg.Fault("claim background task", err)
	}

	claim.Session, err = ByID(ctx, s.Pool, session)

	return claim, err
}

// TaskStatus reads how a task stands.
func (db *Base) TaskStatus(ctx context.Context, taskID string) (status domain.TaskStatus, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT status FROM background_tasks WHERE id = $1`, taskID).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		err = taskNotFound(taskID)
	}

	return status, pg.Fault("read a task's status", err)
}

// TaskStarted notes the process of a task.
func (s *Store) TaskStarted(ctx context.Context, taskID string, attempt, pid int) error {
	return s.Update(ctx, func(tx *pg.Tx) error {
		task, err := taskRow(ctx, tx, `
			UPDATE background_tasks b SET pid = $3 WHERE id = $1 AND attempt = $2 AND status = 'running'
			RETURNING `+taskColumns, taskID, attempt, pid)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.ErrFenced
		}

		if err != nil {
			return pg.Fault("note a task's process", err)
		}

		return emitTask(tx, task)
	})
}

// TaskAlive renews the lease of a task and keeps how much it has written. It
// reports whether the task is to stop, and domain.ErrFenced when this attempt has
// it no longer.
func (s *Store) TaskAlive(ctx context.Context, taskID string, attempt int, bytes int64, lastOutput time.Time) (stop bool, err error) {
	err = s.Pool.Leases().QueryRow(ctx, `
		UPDATE background_tasks
		SET    output_bytes = $3, last_output_at = coalesce($4, last_output_at), lease_expires_at = now() + $5::interval
		WHERE  id = $1 AND attempt = $2 AND status = 'running' RETURNING stop_requested`,
		taskID, attempt, bytes, nullTime(lastOutput), taskLease).Scan(&stop)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, domain.ErrFenced
	}

	return stop, pg.Fault("renew a task's lease", err)
}

func nullTime(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}

	return &at
}

// EndTask records the end of a task that this attempt still has.
func (s *Store) EndTask(ctx context.Context, taskID string, attempt int, end contract.TaskEnd) error {
	return s.Update(ctx, func(tx *pg.Tx) error {
		var one int

		err := tx.QueryRow(ctx, `
			SELECT 1 FROM background_tasks WHERE id = $1 AND attempt = $2 AND status = 'running' FOR UPDATE`, taskID, attempt).Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.ErrFenced
		}

		if err != nil {
			return pg.Fault("end background task", err)
		}

		return endTask(ctx, tx, taskID, end)
	})
}

// MarkTaskLost ends a task whose work is lost, and returns its status; one that has ended
// stays as it is.
func (s *Store) MarkTaskLost(ctx context.Context, taskID, reason string) (status domain.TaskStatus, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT status FROM background_tasks WHERE id = $1 FOR UPDATE`, taskID).Scan(&status)
		if errors.Is(err, pgx.ErrNoRows) {
			return taskNotFound(taskID)
		}

		if err != nil || status != domain.TaskRunning {
			return err
		}

		status = domain.TaskLost

		return endTask(ctx, tx, taskID, contract.TaskEnd{Status: domain.TaskLost, Reason: reason})
	})

	return status, pg.Fault("lose background task", err)
}

// endTask writes the end of a running task and emits it. The caller holds its
// row.
func endTask(ctx context.Context, tx *pg.Tx, taskID string, end contract.TaskEnd) error {
	task, err := taskRow(ctx, tx, `
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
		return pg.Fault("end background task", err)
	}

	if len(end.Connections) > 0 { // shown with the call that started the task, which has long been answered
		if _, err := tx.Exec(ctx, `
			UPDATE tool_calls SET connections = $2
			    WHERE id = (SELECT tool_call_id FROM background_tasks WHERE id = $1)`, taskID, end.Connections); err != nil {
			return pg.Fault("record the connections of a background task", err)
		}
	}

	return emitTask(tx, task)
}

// DetachTasks marks those background tasks of a session as detached whose tool call the
// path of its new branch does not show, unmarks the others, and returns how many are
// detached. All of them continue running.
func DetachTasks(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, path history.Path) (detached int, err error) {
	rows, _ := tx.Query(ctx, `
		SELECT b.id, b.detached, e.branch_id, e.sequence
		FROM   background_tasks b JOIN tool_calls t ON t.id = b.tool_call_id JOIN entries e ON e.id = t.entry_id
		WHERE  b.session_id = $1
		AND    (b.status = 'running' OR NOT EXISTS (SELECT 1 FROM entries n WHERE n.id = 'note_' || b.id))`, sessionID)

	type task struct {
		id       string
		branch   domain.BranchID
		detached bool
		sequence int64
	}

	tasks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (task, error) {
		var t task
		return t, row.Scan(&t.id, &t.detached, &t.branch, &t.sequence)
	})
	if err != nil {
		return 0, fmt.Errorf("look at background tasks: %w", err)
	}

	for _, t := range tasks {
		gone := !path.Shows(t.branch, t.sequence)
		if gone {
			detached++
		}

		if gone == t.detached {
			continue
		}

		changed, err := taskRow(ctx, tx, `UPDATE background_tasks b SET detached = $2 WHERE b.id = $1 RETURNING `+taskColumns, t.id, gone)
		if err != nil {
			return 0, err
		}

		if err := emitTask(tx, changed); err != nil {
			return 0, err
		}
	}

	return detached, nil
}

// EndAgentTask ends the background task of a sub-agent that has ended, if the task still
// runs.
func EndAgentTask(ctx context.Context, tx *pg.Tx, taskID string, end domain.ForkEnd) error {
	var running, stop bool

	err := tx.QueryRow(ctx, `SELECT status = 'running', stop_requested FROM background_tasks WHERE id = $1
		FOR UPDATE`, taskID).Scan(&running, &stop)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !running {
		return nil
	}

	if err != nil {
		return err
	}

	status := domain.TaskFailed

	switch {
	case end.Status == domain.CallDone:
		status = domain.TaskCompleted
	case end.Status == domain.CallCancelled || stop:
		status = domain.TaskStopped
	case end.Lost:
		status = domain.TaskLost
	}

	return endTask(ctx, tx, taskID, contract.TaskEnd{
		Status: status, Reason: end.Reason, OutputBytes: int64(len(end.Result)), LastOutputAt: time.Now(),
	})
}
