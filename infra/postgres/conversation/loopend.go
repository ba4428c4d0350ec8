package conversation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// ForkText gives what a sub-agent has said so far, and for whom it works.
func (db *Base) ForkText(ctx context.Context, loopID string) (text domain.ForkText, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT l.chat_id, t.entry_id, coalesce(l.started_at, now()), l.state = 'ended', l.description, `+sessions.WorkColumns+`
		FROM   loops l JOIN tool_calls t ON t.id = l.id JOIN sessions s ON s.id = l.session_id
		WHERE  l.id = $1`, loopID).
		Scan(append([]any{&text.ChatID, &text.EntryID, &text.StartedAt, &text.Ended, &text.Description},
			sessions.WorkFields(&text.Session)...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return text, ForkNotFound(loopID)
	}

	if err != nil {
		return text, pg.Fault("read sub-agent", err)
	}

	rows, _ := db.Pool.Query(ctx, `
		SELECT e.blocks, e.status FROM entries e
		WHERE  e.chat_id = $1 AND e.loop_id = $2 AND e.role = 'assistant' ORDER BY e.sequence`, text.ChatID, loopID)

	var (
		all    []string
		blocks []domain.Block
		status domain.TurnStatus
	)

	_, err = pgx.ForEachRow(rows, []any{&blocks, &status}, func() error {
		said := ""

		for _, b := range blocks {
			if b.Type == domain.BlockText {
				said += b.Content
			}
		}

		text.Last = ""
		if status == domain.TurnCompleted {
			text.Last = said
		}

		if said != "" && status != domain.TurnFailed {
			all = append(all, said)
		}

		blocks = nil

		return nil
	})
	text.All = strings.Join(all, "\n\n")

	return text, pg.Fault("read what a sub-agent said", err)
}

// ForkNotFound returns the error of a sub-agent that does not exist.
func ForkNotFound(id string) error {
	return domain.Newf(domain.NotFound, "sub_agent_not_found", "sub-agent %s does not exist", id)
}

// EndFork ends a sub-agent once: what it left open is closed, and its call is
// recorded, or its background task ends. A call that was closed with its chat
// stays as it is. Restored holds, by entry, the blocks of its open turns as the
// event log has them.
func (s *Store) EndFork(
	ctx context.Context,
	end domain.ForkEnd,
	maxConcurrent int,
	restored map[domain.TurnID][]domain.Block,
) (out contract.EndForkOut, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		out = contract.EndForkOut{}

		loop, err := lockLoop(ctx, tx, end.LoopID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // deleted with its session
		}

		if err != nil {
			return err
		}

		if loop.State != domain.LoopEnded {
			if err := closeLoop(ctx, tx, loop, end, restored); err != nil {
				return err
			}
		}

		out.Next, err = nextLoops(ctx, tx, loop, maxConcurrent)

		return err
	})

	return out, pg.Fault("end sub-agent", err)
}

func closeLoop(ctx context.Context, tx *pg.Tx, loop lockedLoop, end domain.ForkEnd, restored map[domain.TurnID][]domain.Block) error {
	if err := closeSubLoops(ctx, tx, loop, restored); err != nil {
		return err
	}

	if err := closeLoopWork(ctx, tx, loop, end, restored); err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `UPDATE loops SET state = 'ended', result = $2, ended_at = now()
		WHERE id = $1`, loop.ID, end.Result); err != nil {
		return err
	}

	if loop.Background {
		return sessions.EndAgentTask(ctx, tx, *loop.TaskID, end)
	}

	return settleFork(ctx, tx, loop.SessionID, loop.ChatID, loop.EntryID, end)
}

// closeSubLoops cancels the sub-agents that a sub-agent has left open: their runs end with
// its run. Else they would keep their slots. Those in the background outlive it.
func closeSubLoops(ctx context.Context, tx *pg.Tx, loop lockedLoop, restored map[domain.TurnID][]domain.Block) error {
	rows, _ := tx.Query(ctx, `
		SELECT id FROM loops WHERE chat_id = $1 AND parent_loop_id = $2 AND state <> 'ended' AND NOT background
		ORDER  BY id`, loop.ChatID, loop.ID)

	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	for _, id := range left {
		below, err := lockLoop(ctx, tx, id)
		if err != nil {
			return err
		}

		end := domain.ForkEnd{LoopID: id, Status: domain.CallCancelled, Result: cancelledResult}
		if err := closeLoop(ctx, tx, below, end, restored); err != nil {
			return err
		}
	}

	return nil
}

// settleFork records the result of the call that owns a sub-agent, unless it has
// one, and emits it.
func settleFork(
	ctx context.Context,
	tx *pg.Tx,
	sessionID domain.SessionID,
	chatID domain.ChatID,
	entryID domain.TurnID,
	end domain.ForkEnd,
) error {
	var duration int64

	err := tx.QueryRow(ctx, `
		UPDATE tool_calls SET status = $2, phase = 'finished', result = $3, attempt = attempt + 1,
		       duration_ms = coalesce((extract(epoch FROM now() - started_at) * 1000)::bigint, 0)
		WHERE  id = $1 AND status = 'pending' RETURNING duration_ms`, end.LoopID, end.Status, end.Result).Scan(&duration)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	if err != nil {
		return err
	}

	return tx.Emit(sessionID, chatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: entryID, PatchType: domain.PatchToolResult, ToolCallID: end.LoopID,
		Result: end.Result, Status: end.Status, DurationMS: duration,
	})
}

// closeLoopWork ends what a sub-agent left open: its questions and calls as
// cancelled, its streaming turn with the text that clients have seen.
func closeLoopWork(ctx context.Context, tx *pg.Tx, loop lockedLoop, end domain.ForkEnd, restored map[domain.TurnID][]domain.Block) error {
	rows, _ := tx.Query(ctx, `
		SELECT `+questionColumns+` FROM questions WHERE session_id = $1 AND state = 'open' AND loop_id = $2
			ORDER BY id`, loop.SessionID, loop.ID)

	asked, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.Question])
	if err != nil {
		return err
	}

	if err := cancelQuestions(ctx, tx, loop.SessionID, asked, "sub_agent_ended"); err != nil {
		return err
	}

	for entry, blocks := range restored {
		if _, err := tx.Exec(ctx, `UPDATE entries SET blocks = $2 WHERE id = $1 AND chat_id = $3 AND loop_id = $4 AND status = 'streaming'`,
			entry, blocks, loop.ChatID, loop.ID); err != nil {
			return err
		}
	}

	const ofLoop = `entry_id IN (SELECT e.id FROM entries e WHERE e.chat_id = $1 AND e.loop_id = $2)`
	if err := cancelCalls(ctx, tx, loop.SessionID, loop.ChatID, cancelledResult, ofLoop, loop.ChatID, loop.ID); err != nil {
		return err
	}

	status, why := domain.TurnFailed, "the sub-agent ended"
	if end.Status == domain.CallCancelled {
		status, why = domain.TurnInterrupted, ""
	}

	return closeTurns(ctx, tx, loop.SessionID, loop.ChatID, status, why, `chat_id = $1 AND loop_id = $2`, loop.ChatID, loop.ID)
}

// cancelledResult is what the model reads of a call that ended with its chat.
const cancelledResult = "Cancelled before it finished."

// cancelCalls cancels the calls without a result that fit a condition on
// tool_calls, whose parameters start at $1, and emits them. The attempt is
// raised, so that a worker that still runs one records nothing any more.
func cancelCalls(
	ctx context.Context,
	tx *pg.Tx,
	sessionID domain.SessionID,
	chatID domain.ChatID,
	result, which string,
	args ...any,
) error {
	n := len(args)
	rows, _ := tx.Query(ctx, fmt.Sprintf(`
		UPDATE tool_calls SET status = 'cancelled', phase = 'finished', result = $%d, attempt = attempt + 1,
		       duration_ms = coalesce((extract(epoch FROM now() - started_at) * 1000)::bigint, 0)
		WHERE  chat_id = $%d AND status = 'pending' AND %s
		RETURNING entry_id, id, duration_ms`, n+1, n+2, which), append(args, result, chatID)...)

	patches, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.ToolResultPatch, error) {
		p := domain.ToolResultPatch{PatchType: domain.PatchToolResult, Result: result, Status: domain.CallCancelled}
		return p, row.Scan(&p.TurnID, &p.ToolCallID, &p.DurationMS)
	})
	if err != nil {
		return err
	}

	for _, p := range patches {
		if err := tx.Emit(sessionID, chatID, domain.EventTurnPatch, p); err != nil {
			return err
		}
	}

	return nil
}

// closeTurns ends the streaming turns that fit a condition on entries, whose
// parameters start at $1, and emits them.
func closeTurns(
	ctx context.Context,
	tx *pg.Tx,
	sessionID domain.SessionID,
	chatID domain.ChatID,
	status domain.TurnStatus,
	why, which string,
	args ...any,
) error {
	n := len(args)
	rows, _ := tx.Query(ctx, fmt.Sprintf(`
		UPDATE entries SET status = $%d, ended_at = now(), attempt = attempt + 1,
		       duration_ms = (extract(epoch FROM now() - started_at) * 1000)::bigint, failure_reason = nullif($%d, '')
		WHERE  status = 'streaming' AND %s
		RETURNING id, duration_ms, coalesce(failure_reason, '')`, n+1, n+2, which), append(args, status, why)...)

	open, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.TurnEnded, error) {
		end := domain.TurnEnded{Status: status}
		return end, row.Scan(&end.TurnID, &end.DurationMS, &end.FailureReason)
	})
	if err != nil {
		return err
	}

	for _, end := range open {
		if err := tx.Emit(sessionID, chatID, domain.EventTurnEnd, end); err != nil {
			return err
		}
	}

	return nil
}

// endLoopsOfChat marks the loops that end with their chat, and those that were
// to run in the background and never started.
func endLoopsOfChat(ctx context.Context, tx pgx.Tx, chatID domain.ChatID) error {
	_, err := tx.Exec(ctx, `
		UPDATE loops l SET state = 'ended', ended_at = now()
		WHERE  l.chat_id = $1 AND l.state <> 'ended'
		AND    (l.task_id IS NULL OR NOT EXISTS (SELECT 1 FROM background_tasks b WHERE b.id = l.task_id))`, chatID)

	return err
}

// loseForks ends the sub-agents of a chat whose run was lost: they were lost
// with it. What they said so far is theirs alone. Those of the main loop that have
// not started are left to the new run, which goes back for their calls.
func loseForks(ctx context.Context, tx *pg.Tx, chatID domain.ChatID) error {
	rows, _ := tx.Query(ctx, `
		SELECT id FROM loops
		WHERE  chat_id = $1 AND task_id IS NULL AND state <> 'ended' AND NOT (parent_loop_id = 'root' AND started_at IS NULL)
		ORDER  BY depth DESC, id`, chatID)

	lost, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	for _, id := range lost {
		loop, err := lockLoop(ctx, tx, id)
		if err != nil {
			return err
		}

		end := domain.ForkEnd{LoopID: id, Status: domain.CallError, Result: "The sub-agent was lost with the run of its chat."}
		if err := closeLoop(ctx, tx, loop, end, nil); err != nil {
			return err
		}
	}

	return nil
}
