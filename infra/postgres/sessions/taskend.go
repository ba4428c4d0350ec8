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

// TaskColumns select a domain.BackgroundTask from the row b. The parent of a task is the
// background sub-agent whose call started it.
const TaskColumns = `
	b.id, b.session_id, b.kind, b.title, b.command, b.status, b.pid, b.exit_code, b.reason, b.started_at, b.finished_at,
	b.last_output_at, b.output_bytes, b.tool_call_id, b.owner_run_id, b.lease_expires_at, b.stop_requested, b.detached,
	(SELECT l.task_id FROM tool_calls c JOIN entries e ON e.id = c.entry_id JOIN loops l ON l.id = e.loop_id
	 WHERE  c.id = b.tool_call_id) AS parent_task_id`

// EmitTask publishes the state of a task.
func EmitTask(tx *pg.Tx, task domain.BackgroundTask) error {
	return tx.Emit(task.SessionID, "", domain.EventTaskUpdated, domain.TaskUpdated{BackgroundTask: task})
}

// TaskRow returns the one task that a statement selects.
func TaskRow(ctx context.Context, tx pgx.Tx, sql string, args ...any) (domain.BackgroundTask, error) {
	rows, _ := tx.Query(ctx, sql, args...)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.BackgroundTask])
}

// EndTask writes the end of a running task and publishes it. The caller has locked the row.
func EndTask(ctx context.Context, tx *pg.Tx, taskID string, end contract.TaskEnd) error {
	task, err := TaskRow(ctx, tx, `
		UPDATE background_tasks b
		SET    status = @status, exit_code = @exit, reason = nullif(@reason, ''), finished_at = now(), lease_expires_at = NULL,
		       pid = NULL, output_bytes = greatest(output_bytes, @bytes), last_output_at = coalesce(@last, last_output_at)
		WHERE  id = @id AND status = 'running'
		RETURNING `+TaskColumns,
		pgx.NamedArgs{
			"id": taskID, "status": end.Status, "exit": end.ExitCode, "reason": end.Reason,
			"bytes": end.OutputBytes, "last": NullTime(end.LastOutputAt),
		})
	if err != nil {
		return pg.Fault("end background task", err)
	}

	if len(end.Connections) > 0 { // listed with the call that started the task, whose result was recorded before
		if _, err := tx.Exec(ctx, `
			UPDATE tool_calls SET connections = $2
			    WHERE id = (SELECT tool_call_id FROM background_tasks WHERE id = $1)`, taskID, end.Connections); err != nil {
			return pg.Fault("record the connections of a background task", err)
		}
	}

	return EmitTask(tx, task)
}

// EndAgentTask ends the running background task of a sub-agent that has ended.
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

	return EndTask(ctx, tx, taskID, contract.TaskEnd{
		Status: status, Reason: end.Reason, OutputBytes: int64(len(end.Result)), LastOutputAt: time.Now(),
	})
}

// NullTime returns nil for the zero time.
func NullTime(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}

	return &at
}
