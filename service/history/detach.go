package history

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// detachTasks marks the background tasks of a session as detached when the path of the new branch
// does not show their tool call, unmarks the others, and returns the number of detached tasks. All
// tasks continue to run.
func detachTasks(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, path history.Path) (detached int, err error) {
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
		return 0, fmt.Errorf("read background tasks: %w", err)
	}

	for _, t := range tasks {
		detach := !path.Shows(t.branch, t.sequence)
		if detach {
			detached++
		}

		if detach == t.detached {
			continue
		}

		changed, err := sessions.TaskRow(ctx, tx, `
			UPDATE background_tasks b SET detached = $2 WHERE b.id = $1 RETURNING `+sessions.TaskColumns, t.id, detach)
		if err != nil {
			return 0, err
		}

		if err := sessions.EmitTask(tx, changed); err != nil {
			return 0, err
		}
	}

	return detached, nil
}
