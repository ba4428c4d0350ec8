package conversation

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// callsLeft is a scalar query for the turn before step $3 of loop $2 in chat $1
// when it has calls that have not ended or a question that is open: those that were
// held back and then allowed, and those that a run which was lost has left. The
// ledger decides about a call that is running. Empty: there is none.
const callsLeft = `coalesce((
	SELECT b.id FROM entries b
	WHERE  b.chat_id = $1 AND b.loop_id = $2 AND b.step = $3 - 1 AND b.role = 'assistant' AND b.status IN ('completed', 'paused')
	AND    (EXISTS (SELECT 1 FROM tool_calls t WHERE t.entry_id = b.id AND t.status = 'pending' AND ` + permitted + `)
	        OR EXISTS (SELECT 1 FROM questions q WHERE q.session_id = b.session_id AND q.entry_id = b.id AND q.state = 'open'))
	LIMIT 1), '')`

// FinishedCalls gives the calls of a turn that was closed already, for a worker
// whose report was lost: those that still have to run, and how many questions
// the turn asked. Calls that wait for permission are not to run yet.
func (db *Base) FinishedCalls(ctx context.Context, entryID domain.TurnID) (open []domain.PlannedCall, asked int, err error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT t.id, t.tool_name, t.display_name, t.arguments, t.status, l.max_steps, l.time_limit_s
		FROM   tool_calls t LEFT JOIN loops l ON l.id = t.id AND NOT l.background
		WHERE  t.entry_id = $1 AND NOT (t.phase = 'finished' AND t.attempt = 0) AND `+permitted+` ORDER BY t.position`, entryID)
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var (
			call           domain.PlannedCall
			status         domain.ToolCallStatus
			steps, seconds *int
		)
		if err := row.Scan(&call.ID, &call.ToolName, &call.DisplayName, &call.Arguments, &status, &steps, &seconds); err != nil {
			return struct{}{}, err
		}

		if steps != nil {
			call.Fork = &domain.NewFork{MaxSteps: *steps, Time: time.Duration(*seconds) * time.Second}
		}

		if status == domain.CallAwaitingAnswer {
			asked++
		} else {
			open = append(open, call)
		}

		return struct{}{}, nil
	})

	return open, asked, err
}
