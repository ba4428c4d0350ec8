package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// nextSequence numbers the next entry of a branch. The caller holds the
// session's lock, so numbers are dense and given in the order of the commits.
func nextSequence(ctx context.Context, tx pgx.Tx, branchID string) (n int64, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE branches SET next_sequence = next_sequence + 1 WHERE id = $1 RETURNING next_sequence - 1`, branchID).Scan(&n)
	return n, err
}

// previousEntry is a scalar query for the last main-loop entry of branch $1:
// the parent of the next one.
const previousEntry = `(SELECT p.id FROM entries p WHERE p.branch_id = $1 AND p.loop_id = 'root' ORDER BY p.sequence DESC LIMIT 1)`

// addUserTurn writes what a client said as a finished turn and tells of it.
func addUserTurn(ctx context.Context, c *Change, sessionID, branchID, chatID, turnID string, parts []domain.ContentPart) error {
	sequence, err := nextSequence(ctx, c, branchID)
	if err != nil {
		return err
	}
	blocks := userBlocks(sessionID, parts)
	var startedAt time.Time
	err = c.QueryRow(ctx, `
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, role, status, blocks, parts, ended_at)
		VALUES ($2, $3, $1, $4, `+previousEntry+`, $5, 'user', 'completed', $6, $7, now())
		RETURNING started_at`, branchID, turnID, sessionID, sequence, chatID, blocks, parts).Scan(&startedAt)
	if err != nil {
		return fmt.Errorf("write user turn: %w", err)
	}
	if err := c.Emit(sessionID, chatID, domain.EventTurnStart, turnStart{
		TurnID: turnID, Sequence: sequence, Role: domain.RoleUser, Status: domain.TurnCompleted,
		LoopID: domain.RootLoop, Kind: domain.KindMessage, StartedAt: startedAt, Blocks: blocks,
	}); err != nil {
		return err
	}
	return c.Emit(sessionID, chatID, domain.EventTurnEnd, turnEnd{TurnID: turnID, Status: domain.TurnCompleted})
}

// userBlocks shows a message's parts: an image by the path that serves it.
func userBlocks(sessionID string, parts []domain.ContentPart) []domain.Block {
	blocks := make([]domain.Block, 0, len(parts))
	for _, p := range parts {
		if p.ImageURL != nil {
			blocks = append(blocks, domain.Block{Type: domain.BlockImage, Content: domain.AttachmentPath(sessionID, p.ImageURL.URL)})
			continue
		}
		blocks = append(blocks, domain.Block{Type: domain.BlockText, Content: p.Text})
	}
	return blocks
}

// OpenTurn prepares one model call of a loop: messages steered into the chat
// join first, then the turn is opened, or found again, or taken over from a
// worker that died. The attempt in the result fences every later write.
func (j *Journal) OpenTurn(ctx context.Context, key domain.TurnKey) (turn domain.OpenedTurn, state domain.TurnState, err error) {
	err = j.Commit(ctx, func(c *Change) error {
		session, err := lockSession(ctx, c, key.SessionID, "")
		if err != nil {
			return err
		}
		var running, stop bool
		err = c.QueryRow(ctx, `
			SELECT state = 'running', stop_requested, branch_id, id, mode, headless, output_schema, model, schema_tries
			FROM   chats WHERE id = $1`, key.ChatID).
			Scan(&running, &stop, &turn.BranchID, &turn.Chat.ID, &turn.Chat.Mode, &turn.Chat.Headless,
				&turn.Chat.OutputSchema, &turn.Chat.Model, &turn.Chat.SchemaTries)
		if err != nil {
			return err
		}
		if !running || stop {
			state = domain.TurnStopped
			return nil
		}
		var status domain.TurnStatus
		err = c.QueryRow(ctx, `
			SELECT e.id, e.sequence, e.status, e.attempt, e.started_at, e.blocks,
			       (SELECT count(*) FROM tool_calls t WHERE t.entry_id = e.id)
			FROM   entries e
			WHERE  e.chat_id = $1 AND e.loop_id = $2 AND e.step = $3 AND e.status <> 'failed' AND e.role = 'assistant'`,
			key.ChatID, key.LoopID, key.Step).
			Scan(&turn.EntryID, &turn.Sequence, &status, &turn.Attempt, &turn.StartedAt, &turn.Blocks, &turn.CallCount)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			state = domain.TurnOpened
			return openTurn(ctx, c, key, session, &turn)
		case err != nil:
			return err
		case status != domain.TurnStreaming:
			state = domain.TurnFinished
			return nil
		case turn.Attempt == released:
			state = domain.TurnOpened
			return takeTurn(ctx, c, &turn)
		default:
			state = domain.TurnOrphaned
			return takeTurn(ctx, c, &turn)
		}
	})
	if err != nil || state != domain.TurnOpened {
		return turn, state, err
	}
	turn.Session, err = j.sessionByID(ctx, key.SessionID)
	return turn, state, err
}

// released marks a turn whose model call failed before it showed any text: the
// next try streams into the same turn.
const released = 0

func openTurn(ctx context.Context, c *Change, key domain.TurnKey, session lockedSession, turn *domain.OpenedTurn) error {
	if key.LoopID == domain.RootLoop {
		if err := joinSteered(ctx, c, session.ID, turn.BranchID, key.ChatID); err != nil {
			return err
		}
		if err := joinTaskNotes(ctx, c, session.ID, turn.BranchID, key.ChatID); err != nil {
			return err
		}
	}
	var err error
	if turn.Sequence, err = nextSequence(ctx, c, turn.BranchID); err != nil {
		return err
	}
	turn.EntryID, turn.Attempt = domain.NewID(), 1
	model := ""
	if turn.Chat.Model != nil {
		model = *turn.Chat.Model
	}
	err = c.QueryRow(ctx, `
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, loop_id, role, status, step, attempt, model)
		VALUES ($2, $3, $1, $4, `+previousEntry+`, $5, $6, 'assistant', 'streaming', $7, 1, $8)
		RETURNING started_at`,
		turn.BranchID, turn.EntryID, session.ID, turn.Sequence, key.ChatID, key.LoopID, key.Step, model).Scan(&turn.StartedAt)
	if err != nil {
		return fmt.Errorf("open turn: %w", err)
	}
	if _, err := c.Exec(ctx, `UPDATE chats SET waiting_reason = 'model', waiting_until = NULL WHERE id = $1`, key.ChatID); err != nil {
		return err
	}
	return c.Emit(session.ID, key.ChatID, domain.EventTurnStart, turnStart{
		TurnID: turn.EntryID, Sequence: turn.Sequence, Role: domain.RoleAssistant, Status: domain.TurnStreaming,
		LoopID: key.LoopID, Kind: domain.KindMessage, Model: model, StartedAt: turn.StartedAt, Blocks: []domain.Block{},
	})
}

// joinSteered turns the messages steered into the chat into user turns of it.
func joinSteered(ctx context.Context, c *Change, sessionID, branchID, chatID string) error {
	rows, _ := c.Query(ctx, `
		UPDATE inbox SET state = 'taken'
		WHERE  chat_id = $1 AND kind = 'steer' AND state = 'queued'
		RETURNING id, turn_id, parts`, chatID)
	type steered struct {
		id     int64
		turnID string
		parts  []domain.ContentPart
	}
	joined, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (steered, error) {
		var s steered
		return s, row.Scan(&s.id, &s.turnID, &s.parts)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(joined, func(a, b steered) int { return cmp.Compare(a.id, b.id) })
	for _, s := range joined {
		if err := addUserTurn(ctx, c, sessionID, branchID, chatID, s.turnID, s.parts); err != nil {
			return err
		}
	}
	return nil
}

// takeTurn raises the attempt, so that whoever held the turn writes nothing any
// more.
func takeTurn(ctx context.Context, tx pgx.Tx, turn *domain.OpenedTurn) error {
	return tx.QueryRow(ctx, `
		UPDATE entries SET attempt = greatest(attempt, max_attempt) + 1, max_attempt = greatest(attempt, max_attempt) + 1
		WHERE  id = $1 RETURNING attempt`, turn.EntryID).Scan(&turn.Attempt)
}

// FlushTurn keeps what a turn has streamed up to a position of the event log.
func (j *Journal) FlushTurn(ctx context.Context, entryID string, attempt int, blocks []domain.Block, seq uint64) error {
	return j.InTx(ctx, func(tx pgx.Tx) error {
		// The log holds the same text: a power cut loses nothing with this.
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = off`); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE entries SET blocks = $3, flushed_seq = $4
			WHERE  id = $1 AND attempt = $2 AND status = 'streaming'`, entryID, attempt, blocks, int64(seq))
		if err == nil && tag.RowsAffected() == 0 {
			return domain.ErrFenced
		}
		return err
	})
}

// ReleaseTurn leaves a turn that has shown nothing to the next try, and says why
// in a retry patch.
func (j *Journal) ReleaseTurn(ctx context.Context, key domain.TurnKey, entryID string, attempt int, retry domain.Retry) error {
	return j.Commit(ctx, func(c *Change) error {
		tag, err := c.Exec(ctx, `
			UPDATE entries SET attempt = $3, max_attempt = greatest(max_attempt, $2)
			WHERE  id = $1 AND attempt = $2 AND status = 'streaming'`, entryID, attempt, released)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return domain.ErrFenced
		}
		return tellRetry(ctx, c, key, entryID, retry)
	})
}

type retryPatch struct {
	TurnID        string    `json:"turn_id"`
	PatchType     string    `json:"patch_type"`
	Attempt       int       `json:"attempt"`
	Reason        string    `json:"reason"`
	NextAttemptAt time.Time `json:"next_attempt_at"`
}

func tellRetry(ctx context.Context, c *Change, key domain.TurnKey, entryID string, retry domain.Retry) error {
	if _, err := c.Exec(ctx, `UPDATE chats SET waiting_reason = $2, waiting_until = $3 WHERE id = $1`,
		key.ChatID, retry.Waiting, retry.At); err != nil {
		return err
	}
	if err := c.Emit(key.SessionID, key.ChatID, domain.EventTurnPatch, retryPatch{
		TurnID: entryID, PatchType: domain.PatchRetry, Attempt: retry.Attempt, Reason: retry.Reason, NextAttemptAt: retry.At,
	}); err != nil {
		return err
	}
	if retry.Waiting == domain.WaitingRateLimit {
		return emitSession(ctx, c, key.SessionID)
	}
	return nil
}

// CloseTurn ends a turn with all that it holds: its text, its usage and the tool
// calls that it asks for, which enter the ledger. Calls that ask the user open
// their questions, and the turn is paused.
func (j *Journal) CloseTurn(ctx context.Context, turn domain.ClosingTurn) error {
	return j.Commit(ctx, func(c *Change) error {
		if _, err := lockSession(ctx, c, turn.SessionID, ""); err != nil {
			return err
		}
		tag, err := c.Exec(ctx, `
			UPDATE entries SET status = @status, blocks = @blocks, input_tokens = @input, output_tokens = @output,
			       model = CASE WHEN @model = '' THEN model ELSE @model END, context_window = @window,
			       duration_ms = @duration, failure_reason = nullif(@failure, ''), ended_at = now()
			WHERE  id = @id AND attempt = @attempt AND status = 'streaming'`,
			pgx.NamedArgs{
				"id": turn.EntryID, "attempt": turn.Attempt, "status": turn.Status, "blocks": turn.Blocks,
				"input": turn.Usage.InputTokens, "output": turn.Usage.OutputTokens, "model": turn.Model,
				"window": turn.ContextWindow, "duration": turn.Duration.Milliseconds(), "failure": turn.FailureReason,
			})
		if err != nil {
			return fmt.Errorf("close turn: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return domain.ErrFenced
		}
		waiting := domain.WaitingModel
		if len(turn.Calls) > 0 {
			waiting = domain.WaitingTool
		}
		if _, err := c.Exec(ctx, `
			UPDATE chats SET steps = CASE WHEN $5 = 'root' THEN greatest(steps, $2) ELSE steps END,
			       input_tokens = input_tokens + $3, output_tokens = output_tokens + $4, waiting_reason = $6,
			       schema_tries = schema_tries + $7::int
			WHERE  id = $1`,
			turn.ChatID, turn.Step, turn.Usage.InputTokens, turn.Usage.OutputTokens, turn.LoopID, waiting, btoi(turn.Misfit)); err != nil {
			return err
		}
		if err := reserveCalls(ctx, c, turn); err != nil {
			return err
		}
		return c.Emit(turn.SessionID, turn.ChatID, domain.EventTurnEnd, turnEnd{
			TurnID: turn.EntryID, Status: turn.Status, Usage: turn.Usage,
			DurationMS: turn.Duration.Milliseconds(), FailureReason: turn.FailureReason,
		})
	})
}

// reserveCalls enters a turn's tool calls in the ledger and tells of them.
func reserveCalls(ctx context.Context, c *Change, turn domain.ClosingTurn) error {
	for i, call := range turn.Calls {
		status, phase, result, shown := domain.CallPending, domain.PhaseQueued, "", domain.CallPending
		switch {
		case call.Questions != nil:
			status, shown = domain.CallAwaitingAnswer, domain.CallAwaitingAnswer
		case call.Settled != nil: // clients see it asked for, then settled
			status, phase, result = call.Settled.Status, domain.PhaseFinished, call.Settled.Result
		}
		if _, err := c.Exec(ctx, `
			INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase, result)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			call.ID, turn.SessionID, turn.ChatID, turn.EntryID, i, call.ToolName, call.DisplayName, call.Arguments,
			status, phase, result); err != nil {
			return fmt.Errorf("reserve tool call: %w", err)
		}
		if call.Questions != nil {
			if _, err := c.Exec(ctx, `
				INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions)
				VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				domain.NewID(), turn.SessionID, turn.ChatID, turn.EntryID, call.ID, turn.LoopID, call.Questions); err != nil {
				return fmt.Errorf("ask question: %w", err)
			}
		}
		if err := c.Emit(turn.SessionID, turn.ChatID, domain.EventTurnPatch, addToolCallPatch{
			TurnID: turn.EntryID, PatchType: domain.PatchAddToolCall,
			ToolCall: patchedCall{call.ID, call.ToolName, call.DisplayName, call.Arguments, shown},
		}); err != nil {
			return err
		}
		if call.Settled != nil {
			if err := c.Emit(turn.SessionID, turn.ChatID, domain.EventTurnPatch, toolResultPatch{
				TurnID: turn.EntryID, PatchType: domain.PatchToolResult, ToolCallID: call.ID,
				Result: result, Status: status,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// FinishedCalls gives the calls of a turn that was closed already, for a worker
// whose report was lost: those that still have to run, and how many questions
// the turn asked.
func (db *DB) FinishedCalls(ctx context.Context, entryID string) (open []domain.PlannedCall, asked int, err error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT id, tool_name, display_name, arguments, status FROM tool_calls
		WHERE  entry_id = $1 AND NOT (phase = 'finished' AND attempt = 0) ORDER BY position`, entryID)
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var call domain.PlannedCall
		var status domain.ToolCallStatus
		if err := row.Scan(&call.ID, &call.ToolName, &call.DisplayName, &call.Arguments, &status); err != nil {
			return struct{}{}, err
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

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
