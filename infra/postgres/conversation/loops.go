package conversation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/internal/durable"
)

// Sub-agents. A loop is reserved with the call that owns it, starts with its
// first model call, and ends with the result of that call. Everything that
// decides about loops holds the lock of their session's row.

// Alive is the condition chat.Work.Alive on the rows of the chat c and the loop l (null for
// the main loop), for statements that test and write at once.
const Alive = `
	(CASE WHEN l.task_id IS NULL THEN c.state = 'running' AND NOT c.stop_requested AND coalesce(l.state, '') <> 'ended'
	      ELSE l.state <> 'ended' AND EXISTS (
	      	SELECT 1 FROM background_tasks b WHERE b.id = l.task_id AND b.status = 'running' AND NOT b.stop_requested)
	 END)`

// ofChat returns a condition on a loop id: work of the chat itself, not of one of its
// background sub-agents, which outlive it.
func ofChat(loopID string) string {
	return `NOT EXISTS (SELECT 1 FROM loops bl WHERE bl.id = ` + loopID + ` AND bl.task_id IS NOT NULL)`
}

// LoopColumns give, of the loop l or of none, what its work is set up with. LoopFields
// scans them.
const LoopColumns = `
	coalesce(l.depth, 0), coalesce(l.id, ''), coalesce(l.agent_type, ''), coalesce(l.description, ''), coalesce(l.instructions, ''),
	l.tools, l.model, coalesce(l.task_id, '')`

// LoopFields returns where the LoopColumns of a loop go.
func LoopFields(l *domain.LoopSettings) []any {
	return []any{&l.Depth, &l.ParentToolCallID, &l.AgentType, &l.Description, &l.Prompt, &l.Only, &l.Model, &l.TaskID}
}

// admitLoop lets a sub-agent work, with its first turn if it starts, or puts it
// in the queue. It works at once while fewer than maxConcurrent of its chat do. Those
// whose own sub-agents work do not count, and the first of these needs no slot:
// it has that of the one that waits for it.
func admitLoop(ctx context.Context, tx *pg.Tx, key domain.TurnKey, maxConcurrent int, turn *domain.OpenedTurn) (admitted bool, err error) {
	var (
		state         domain.LoopState
		started, lent bool
		busy          int
	)

	err = tx.QueryRow(ctx, `
		SELECT l.state, l.started_at IS NOT NULL,
		       EXISTS (SELECT 1 FROM loops p WHERE p.id = l.parent_loop_id AND p.state = 'running') AND NOT EXISTS (
		       	SELECT 1 FROM loops k WHERE k.chat_id = l.chat_id AND k.state = 'running' AND k.parent_loop_id = l.parent_loop_id),
		       `+working("l.chat_id")+`
		FROM   loops l WHERE l.id = $1`, key.LoopID).Scan(&state, &started, &lent, &busy)
	switch {
	case err != nil:
		return false, fmt.Errorf("look for a slot: %w", err)
	case state == domain.LoopRunning:
		return true, nil
	case !lent && busy >= maxConcurrent:
		return false, queueLoop(ctx, tx, key)
	}

	if _, err := tx.Exec(ctx, `
		UPDATE loops SET state = 'running', started_at = coalesce(started_at, now()) WHERE id = $1`, key.LoopID); err != nil {
		return false, err
	}

	if started {
		return true, nil
	}

	return true, beginLoop(ctx, tx, key, turn.BranchID)
}

func queueLoop(ctx context.Context, tx *pg.Tx, key domain.TurnKey) error {
	tag, err := tx.Exec(ctx, `UPDATE loops SET state = 'queued' WHERE id = $1 AND state <> 'queued'`, key.LoopID)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}

	return sessions.EmitUpdated(ctx, tx, key.SessionID)
}

// beginLoop takes the call that owns the loop from reserved to running and
// writes the prompt as the loop's first turn. The call of a background loop has
// run already: it started the task.
func beginLoop(ctx context.Context, tx *pg.Tx, key domain.TurnKey, branchID domain.BranchID) error {
	var prompt string

	err := tx.QueryRow(ctx, `
		WITH claimed AS (
			UPDATE tool_calls SET phase = 'running', attempt = attempt + 1, started_at = now()
			WHERE  id = $1 AND status = 'pending' AND phase = 'queued' AND NOT (SELECT background FROM loops WHERE id = $1))
		SELECT prompt FROM loops WHERE id = $1`, key.LoopID).Scan(&prompt)
	if err != nil {
		return fmt.Errorf("begin sub-agent: %w", err)
	}

	return addTurn(ctx, tx, newTurn{
		sessionID: key.SessionID, branchID: branchID, chatID: key.ChatID, loopID: key.LoopID, turnID: domain.TurnID(domain.NewID()),
		parts: []domain.ContentPart{{Type: "text", Text: prompt}},
	})
}

// ForkOf returns the id of the tool call that owns a loop, as the loop's turns have it; nil
// for the main loop.
func ForkOf(loopID string) *string {
	if loopID == domain.RootLoop {
		return nil
	}

	return &loopID
}

// PauseFork reports whether a sub-agent must wait for an answer: to its own
// questions, or to those of its sub-agents. One that waits gives up its slot.
func (s *Store) PauseFork(ctx context.Context, in contract.PauseForkIn, maxConcurrent int) (out contract.PauseForkOut, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		out = contract.PauseForkOut{State: contract.Closed}

		loop, err := lockLoop(ctx, tx, in.LoopID)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !loop.Alive {
			return nil
		}

		if err != nil {
			return err
		}

		var (
			open    int
			allowed bool // a call of the sub-agent, which has not started
		)
		if err := tx.QueryRow(ctx, `
			SELECT (SELECT count(*) FROM questions WHERE session_id = $2 AND state = 'open' AND loop_id = $3),
			       EXISTS (SELECT 1 FROM questions g JOIN tool_calls t ON t.id = g.guards LEFT JOIN loops k ON k.id = t.id
			               WHERE g.chat_id = $1 AND g.loop_id = $3 AND g.state = 'answered' AND t.status = 'pending' AND t.phase = 'queued'
			               AND   coalesce(k.state, 'reserved') = 'reserved')`, loop.ChatID, loop.SessionID, in.LoopID).
			Scan(&open, &allowed); err != nil {
			return err
		}

		if open == 0 && (in.Asked || !in.Children) || allowed && in.Asked && !in.Children {
			out.State = contract.Answered
			return nil
		}

		out.State = contract.Parked

		tag, err := tx.Exec(ctx, `UPDATE loops SET state = 'waiting' WHERE id = $1 AND state <> 'waiting'`, in.LoopID)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}

		out.Next, err = nextLoops(ctx, tx, loop, maxConcurrent)

		return err
	})

	return out, pg.Fault("pause sub-agent", err)
}

// lockedLoop is what decisions about a loop are made on.
type lockedLoop struct {
	ID         string           `db:"id"`
	SessionID  domain.SessionID `db:"session_id"`
	ChatID     domain.ChatID    `db:"chat_id"`
	ParentID   string           `db:"parent_loop_id"`
	TaskID     *string          `db:"task_id"`
	Background bool             `db:"background"`
	State      domain.LoopState `db:"state"`
	EntryID    domain.TurnID    `db:"entry_id"` // the turn that asked for it
	Alive      bool             `db:"alive"`
}

// lockLoop takes the lock of the loop's session, deleted or not, and reads the
// loop under it. Without a loop the error is pgx.ErrNoRows.
func lockLoop(ctx context.Context, tx pgx.Tx, loopID string) (lockedLoop, error) {
	if _, err := tx.Exec(ctx, `
		SELECT 1 FROM sessions WHERE id = (SELECT session_id FROM loops WHERE id = $1) FOR UPDATE`, loopID); err != nil {
		return lockedLoop{}, err
	}

	rows, _ := tx.Query(ctx, `
		SELECT l.id, l.session_id, l.chat_id, l.parent_loop_id, l.task_id, l.background, l.state, t.entry_id, `+Alive+` AS alive
		FROM   loops l JOIN chats c ON c.id = l.chat_id JOIN tool_calls t ON t.id = l.id
		WHERE  l.id = $1`, loopID)

	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[lockedLoop])
}

// nextLoops gives the runs of the loops that wait for a slot and may have one now
// that one has come free: the first of the chat, and the first of the same
// parent, which may take its place.
func nextLoops(ctx context.Context, tx pgx.Tx, freed lockedLoop, maxConcurrent int) ([]string, error) {
	rows, _ := tx.Query(ctx, `
		(SELECT id, task_id, background FROM loops WHERE chat_id = $1 AND state = 'queued' ORDER BY created_at, id
		 LIMIT greatest(0, $3 - `+working("$1")+`))
		UNION
		(SELECT id, task_id, background FROM loops WHERE chat_id = $1 AND state = 'queued' AND parent_loop_id = $2
		    ORDER BY created_at, id LIMIT 1)`,
		freed.ChatID, freed.ParentID, maxConcurrent)

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var (
			id         string
			task       *string
			background bool
		)
		if err := row.Scan(&id, &task, &background); err != nil {
			return "", err
		}

		if background && task != nil {
			return durable.TaskWorkflowID(*task), nil
		}

		return durable.ForkWorkflowID(string(freed.ChatID), id), nil
	})
}

// working returns a scalar query for the number of a chat's sub-agents that work, but
// for those whose own sub-agents do.
func working(chat string) string {
	return `(SELECT count(*) FROM loops w WHERE w.chat_id = ` + chat + ` AND w.state = 'running' AND NOT EXISTS (
		SELECT 1 FROM loops k WHERE k.chat_id = w.chat_id AND k.state = 'running' AND k.parent_loop_id = w.id))`
}
