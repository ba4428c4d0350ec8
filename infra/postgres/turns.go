package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
)

// nextSequence numbers the next entry of a branch. The caller holds the
// session's lock, so numbers are dense and given in the order of the commits.
func nextSequence(ctx context.Context, tx pgx.Tx, branchID string) (n int64, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE branches SET next_sequence = next_sequence + 1 WHERE id = $1 RETURNING next_sequence - 1`, branchID).Scan(&n)
	return n, err
}

// previousEntry is a scalar query for the last main-loop entry of branch $1, or
// the one that it was forked from: the parent of the next one.
const previousEntry = `coalesce(
	(SELECT p.id FROM entries p WHERE p.branch_id = $1 AND p.loop_id = 'root' ORDER BY p.sequence DESC LIMIT 1),
	(SELECT b.forked_from_id FROM branches b WHERE b.id = $1))`

// previousOfLoop is a scalar query for the parent of the next entry of a loop on
// a branch: for a sub-agent its own last entry, else the turn that asked for it.
// Both are names of parameters.
func previousOfLoop(loopID, loop, branch string) string {
	if loopID == domain.RootLoop {
		return strings.ReplaceAll(previousEntry, "$1", branch)
	}
	return `coalesce(
		(SELECT p.id FROM entries p WHERE p.chat_id = (SELECT chat_id FROM loops WHERE id = ` + loop + `) AND p.loop_id = ` + loop + `
		 ORDER BY p.sequence DESC LIMIT 1),
		(SELECT t.entry_id FROM tool_calls t WHERE t.id = ` + loop + `))`
}

// newTurn is a user turn to be written.
type newTurn struct {
	sessionID, branchID, chatID string
	loopID                      string
	turnID                      string
	parts                       []domain.ContentPart
}

// addUserTurn writes what a client said as a finished turn, with the checkpoint
// before it, and tells of both.
func addUserTurn(ctx context.Context, c *Change, sessionID, branchID, chatID, turnID string, parts []domain.ContentPart) error {
	return addTurn(ctx, c, newTurn{
		sessionID: sessionID, branchID: branchID, chatID: chatID, loopID: domain.RootLoop, turnID: turnID, parts: parts,
	})
}

// addTurn writes what was said to a loop as a finished turn and tells of it. In
// the main loop a checkpoint goes before it.
func addTurn(ctx context.Context, c *Change, t newTurn) error {
	sequence, err := nextSequence(ctx, c, t.branchID)
	if err != nil {
		return err
	}
	start := domain.TurnStarted{
		TurnID: t.turnID, Sequence: sequence, Role: domain.RoleUser, Status: domain.TurnCompleted, LoopID: t.loopID,
		Kind: domain.KindMessage, ParentForkToolCallID: forkOf(t.loopID), Blocks: userBlocks(t.sessionID, t.parts),
	}
	before := domain.CheckpointCreated{
		ID: domain.NewID(), TurnID: t.turnID, BranchID: t.branchID, Sequence: sequence, Kind: domain.CheckpointUserTurn, Label: title(t.parts),
	}
	with := ""
	if t.loopID == domain.RootLoop {
		with = `WITH before AS (` + insertCheckpoint + `)`
	}
	err = c.QueryRow(ctx, with+`
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, role, status, blocks, parts, loop_id,
		                     parent_fork_tool_call_id, ended_at)
		VALUES (@turn, @session, @branch, @sequence, `+previousOfLoop(t.loopID, "@loop", "@branch")+`, @chat, 'user', 'completed',
		        @blocks, @parts, @loop, @fork, now())
		RETURNING started_at`,
		pgx.NamedArgs{
			"turn": t.turnID, "session": t.sessionID, "branch": t.branchID, "sequence": sequence, "chat": t.chatID,
			"blocks": start.Blocks, "parts": t.parts, "loop": t.loopID, "fork": forkOf(t.loopID),
			"checkpoint": before.ID, "kind": before.Kind, "label": before.Label,
		}).Scan(&start.StartedAt)
	if err != nil {
		return fmt.Errorf("write user turn: %w", err)
	}
	if err := c.Emit(t.sessionID, t.chatID, domain.EventTurnStart, start); err != nil {
		return err
	}
	err = c.Emit(t.sessionID, t.chatID, domain.EventTurnEnd, domain.TurnEnded{TurnID: t.turnID, Status: domain.TurnCompleted})
	if err != nil || with == "" {
		return err
	}
	return c.Emit(t.sessionID, t.chatID, domain.EventCheckpoint, before)
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
// worker that died. The attempt in the result fences every later write. The
// turn tells the chat's model, or the given one when the chat names none.
//
// A sub-agent begins with its first turn, unless atOnce of its chat work already:
// then it is queued.
func (j *Journal) OpenTurn(ctx context.Context, key domain.TurnKey, model string, atOnce int) (turn domain.OpenedTurn, state domain.TurnState, err error) {
	err = j.Commit(ctx, func(c *Change) error {
		turn = domain.OpenedTurn{}
		found, err := findTurn(ctx, c, key, &turn)
		switch {
		case err != nil:
			return err
		case !found.alive:
			state = domain.TurnStopped
			return nil
		case turn.EntryID == "" && found.left != "":
			turn.EntryID, state = found.left, domain.TurnBehind
			return nil
		case turn.EntryID == "" && key.LoopID != domain.RootLoop:
			admitted, err := admitLoop(ctx, c, key, atOnce, &turn)
			if err != nil || !admitted {
				state = domain.TurnQueued
				return err
			}
			state = domain.TurnOpened
			return openTurn(ctx, c, key, model, found, &turn)
		case turn.EntryID == "":
			state = domain.TurnOpened
			return openTurn(ctx, c, key, model, found, &turn)
		case found.status != domain.TurnStreaming:
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
	return turn, state, err
}

// foundTurn is what a model call finds before it opens its turn.
type foundTurn struct {
	alive      bool // its chat runs and was not stopped; in the background, its task
	status     domain.TurnStatus
	steered    bool   // messages wait to join
	tasksEnded bool   // background tasks have ended that the model was not told of
	left       string // the turn before it, while calls of that are still to be run
}

// findTurn takes the session's lock and reads, under it and in the same round,
// the session, the chat and the turn that an earlier attempt may have opened.
func findTurn(ctx context.Context, tx pgx.Tx, key domain.TurnKey, turn *domain.OpenedTurn) (found foundTurn, err error) {
	var batch pgx.Batch
	batch.Queue(`
		SELECT `+workColumns+`
		FROM   sessions s WHERE s.id = $1 AND s.deleted_at IS NULL FOR UPDATE`, key.SessionID).
		QueryRow(func(row pgx.Row) error {
			err := row.Scan(workFields(&turn.Session)...)
			if errors.Is(err, pgx.ErrNoRows) {
				return domain.SessionNotFound(key.SessionID)
			}
			return err
		})
	batch.Queue(`
		SELECT `+alive+`, coalesce(l.branch_id, c.branch_id), c.id, c.mode, c.headless OR l.task_id IS NOT NULL,
		       CASE WHEN l.id IS NULL THEN c.output_schema END, coalesce(l.model, c.model),
		       CASE WHEN l.id IS NULL THEN c.schema_tries ELSE 0 END,
		       EXISTS (SELECT 1 FROM inbox i WHERE i.chat_id = c.id AND i.kind = 'steer' AND i.state = 'queued'),
		       EXISTS (SELECT 1 FROM background_tasks b WHERE b.session_id = c.session_id AND b.status <> 'running' AND NOT b.detached
		               AND NOT EXISTS (SELECT 1 FROM entries n WHERE n.id = 'note_' || b.id)),
		       coalesce(e.id, ''), coalesce(e.sequence, 0), coalesce(e.status, ''), coalesce(e.attempt, 0),
		       coalesce(e.started_at, now()), coalesce(e.blocks, '[]'),
		       (SELECT count(*) FROM tool_calls t WHERE t.entry_id = e.id), `+captureUntakenIn("c.session_id")+`, `+callsLeft+`, `+loopColumns+`
		FROM   chats c LEFT JOIN loops l ON l.id = $2 LEFT JOIN entries e
		       ON e.chat_id = c.id AND e.loop_id = $2 AND e.step = $3 AND e.status <> 'failed' AND e.role = 'assistant'
		WHERE  c.id = $1`, key.ChatID, key.LoopID, key.Step).
		QueryRow(func(row pgx.Row) error {
			return row.Scan(append([]any{
				&found.alive, &turn.BranchID, &turn.Chat.ID, &turn.Chat.Mode, &turn.Chat.Headless,
				&turn.Chat.OutputSchema, &turn.Chat.Model, &turn.Chat.SchemaTries, &found.steered, &found.tasksEnded,
				&turn.EntryID, &turn.Sequence, &found.status, &turn.Attempt, &turn.StartedAt, &turn.Blocks, &turn.CallCount,
				&turn.CaptureDue, &found.left,
			}, loopFields(&turn.Loop)...)...)
		})
	return found, tx.SendBatch(ctx, &batch).Close()
}

// callsLeft is a scalar query for the turn before step $3 of loop $2 in chat $1
// when calls of it have not been begun: those that were held back and then
// allowed. Empty: there is none.
const callsLeft = `coalesce((
	SELECT b.id FROM entries b
	WHERE  b.chat_id = $1 AND b.loop_id = $2 AND b.step = $3 - 1 AND b.role = 'assistant' AND b.status = 'completed'
	AND    EXISTS (SELECT 1 FROM tool_calls t WHERE t.entry_id = b.id AND t.status = 'pending' AND t.phase = 'queued' AND ` + permitted + `)
	LIMIT 1), '')`

// released marks a turn whose model call failed before it showed any text: the
// next try streams into the same turn.
const released = 0

func openTurn(ctx context.Context, c *Change, key domain.TurnKey, model string, found foundTurn, turn *domain.OpenedTurn) error {
	if key.LoopID == domain.RootLoop && found.steered {
		if err := joinSteered(ctx, c, key.SessionID, turn.BranchID, key.ChatID); err != nil {
			return err
		}
		turn.CaptureDue = true // each has a checkpoint
	}
	if key.LoopID == domain.RootLoop && found.tasksEnded {
		if err := joinTaskNotes(ctx, c, key.SessionID, turn.BranchID, key.ChatID); err != nil {
			return err
		}
	}
	turn.EntryID, turn.Attempt = domain.NewID(), 1
	if turn.Chat.Model != nil {
		model = *turn.Chat.Model
	}
	err := c.QueryRow(ctx, `
		WITH numbered AS (UPDATE branches SET next_sequence = next_sequence + 1 WHERE id = $1 RETURNING next_sequence - 1 AS sequence),
		     waiting AS (UPDATE chats SET waiting_reason = 'model', waiting_until = NULL WHERE id = $4 AND $5 = 'root')
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, loop_id, role, status, step, attempt, model,
		                     parent_fork_tool_call_id)
		SELECT $2, $3, $1, sequence, `+previousOfLoop(key.LoopID, "$5", "$1")+`, $4, $5, 'assistant', 'streaming', $6, 1, $7, $8 FROM numbered
		RETURNING sequence, started_at`,
		turn.BranchID, turn.EntryID, key.SessionID, key.ChatID, key.LoopID, key.Step, model, forkOf(key.LoopID)).Scan(&turn.Sequence, &turn.StartedAt)
	if err != nil {
		return fmt.Errorf("open turn: %w", err)
	}
	return c.Emit(key.SessionID, key.ChatID, domain.EventTurnStart, domain.TurnStarted{
		TurnID: turn.EntryID, Sequence: turn.Sequence, Role: domain.RoleAssistant, Status: domain.TurnStreaming,
		LoopID: key.LoopID, Kind: domain.KindMessage, Model: model, StartedAt: turn.StartedAt,
		ParentForkToolCallID: forkOf(key.LoopID), Blocks: []domain.Block{},
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
	// The log holds the same text: a power cut loses nothing with this.
	var fenced bool
	err := j.Quietly(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			UPDATE entries SET blocks = $3, flushed_seq = $4
			WHERE  id = $1 AND attempt = $2 AND status = 'streaming'`, entryID, attempt, blocks, int64(seq)).
			Exec(func(tag pgconn.CommandTag) error {
				fenced = tag.RowsAffected() == 0
				return nil
			})
	})
	if err == nil && fenced {
		return domain.ErrFenced
	}
	return err
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
	if key.LoopID == domain.RootLoop {
		if _, err := c.Exec(ctx, `UPDATE chats SET waiting_reason = $2, waiting_until = $3 WHERE id = $1`,
			key.ChatID, retry.Waiting, retry.At); err != nil {
			return err
		}
	}
	if err := c.Emit(key.SessionID, key.ChatID, domain.EventTurnPatch, retryPatch{
		TurnID: entryID, PatchType: domain.PatchRetry, Attempt: retry.Attempt, Reason: retry.Reason, NextAttemptAt: retry.At,
	}); err != nil {
		return err
	}
	if retry.Waiting == domain.WaitingRateLimit && key.LoopID == domain.RootLoop {
		return emitSession(ctx, c, key.SessionID)
	}
	return nil
}

// CloseTurn ends a turn with all that it holds: its text, its usage and the tool
// calls that it asks for, which enter the ledger. Calls that ask the user open
// their questions, and the turn is paused.
func (j *Journal) CloseTurn(ctx context.Context, turn domain.ClosingTurn) error {
	return j.Commit(ctx, func(c *Change) error {
		closed, err := closeEntry(ctx, c, turn)
		if err != nil {
			return fmt.Errorf("close turn: %w", err)
		}
		if !closed {
			return domain.ErrFenced
		}
		if err := reserveCalls(ctx, c, turn); err != nil {
			return fmt.Errorf("reserve tool calls: %w", err)
		}
		return c.Emit(turn.SessionID, turn.ChatID, domain.EventTurnEnd, domain.TurnEnded{
			TurnID: turn.EntryID, Status: turn.Status, Usage: turn.Usage,
			DurationMS: turn.Duration.Milliseconds(), FailureReason: turn.FailureReason,
		})
	})
}

// closeEntry takes the session's lock and closes the turn's entry, if this
// attempt still holds it.
func closeEntry(ctx context.Context, tx pgx.Tx, turn domain.ClosingTurn) (closed bool, err error) {
	var batch pgx.Batch
	batch.Queue(`SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE`, turn.SessionID)
	batch.Queue(`
		UPDATE entries SET status = @status, blocks = @blocks, input_tokens = @input, output_tokens = @output,
		       model = CASE WHEN @model = '' THEN model ELSE @model END, context_window = @window,
		       duration_ms = @duration, failure_reason = nullif(@failure, ''), ended_at = now()
		WHERE  id = @id AND attempt = @attempt AND status = 'streaming'`,
		pgx.NamedArgs{
			"id": turn.EntryID, "attempt": turn.Attempt, "status": turn.Status, "blocks": turn.Blocks,
			"input": turn.Usage.InputTokens, "output": turn.Usage.OutputTokens, "model": turn.Model,
			"window": turn.ContextWindow, "duration": turn.Duration.Milliseconds(), "failure": turn.FailureReason,
		}).
		Exec(func(tag pgconn.CommandTag) error {
			closed = tag.RowsAffected() > 0
			return nil
		})
	return closed, tx.SendBatch(ctx, &batch).Close()
}

// reserveCalls counts the turn's usage and enters its tool calls in the ledger,
// and tells of them.
func reserveCalls(ctx context.Context, c *Change, turn domain.ClosingTurn) error {
	waiting := domain.WaitingModel
	if len(turn.Calls) > 0 {
		waiting = domain.WaitingTool
	}
	var batch pgx.Batch
	batch.Queue(`
		UPDATE chats SET steps = CASE WHEN $5 = 'root' THEN greatest(steps, $2) ELSE steps END,
		       input_tokens = input_tokens + $3, output_tokens = output_tokens + $4,
		       waiting_reason = CASE WHEN $5 = 'root' THEN $6 ELSE waiting_reason END,
		       schema_tries = schema_tries + CASE WHEN $7 THEN 1 ELSE 0 END
		WHERE  id = $1`,
		turn.ChatID, turn.Step, turn.Usage.InputTokens, turn.Usage.OutputTokens, turn.LoopID, waiting, turn.Misfit)
	batch.Queue(`UPDATE sessions SET used_tokens = used_tokens + $2, used_cost = used_cost + $3 WHERE id = $1`,
		turn.SessionID, turn.Usage.InputTokens+turn.Usage.OutputTokens, turn.Cost)
	reserveCapture(&batch, turn)
	asked := make([]*domain.PendingQuestionRef, len(turn.Calls))
	for i, call := range turn.Calls {
		status, phase, result := ledgerEntry(call)
		batch.Queue(`
			INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase, result)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			call.ID, turn.SessionID, turn.ChatID, turn.EntryID, i, call.ToolName, call.DisplayName, call.Arguments, status, phase, result)
		if call.Questions != nil {
			asked[i] = &domain.PendingQuestionRef{QuestionID: domain.NewID(), AskedAt: time.Now().UTC(), SourceLoop: call.Source}
			batch.Queue(`
				INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, asked_at, source_loop, guards, allows)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, nullif($10, ''), $11)`,
				asked[i].QuestionID, turn.SessionID, turn.ChatID, turn.EntryID, call.ID, turn.LoopID, call.Questions, asked[i].AskedAt, call.Source,
				call.Guards, call.Allows)
		}
		if call.Fork != nil {
			reserveLoop(&batch, turn, call.ID, call.Fork)
		}
	}
	if err := c.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	for i, call := range turn.Calls {
		if err := tellCall(c, turn, call, asked[i]); err != nil {
			return err
		}
	}
	return nil
}

// ledgerEntry is how a call enters the ledger: to be run, put to the user, or
// settled already.
func ledgerEntry(call domain.PlannedCall) (status domain.ToolCallStatus, phase, result string) {
	switch {
	case call.Questions != nil:
		return domain.CallAwaitingAnswer, domain.PhaseQueued, ""
	case call.Settled != nil:
		return call.Settled.Status, domain.PhaseFinished, call.Settled.Result
	default:
		return domain.CallPending, domain.PhaseQueued, ""
	}
}

// tellCall tells clients of a call that was asked for, and of its result when it
// is settled already.
func tellCall(c *Change, turn domain.ClosingTurn, call domain.PlannedCall, asked *domain.PendingQuestionRef) error {
	shown := domain.CallPending
	if call.Questions != nil {
		shown = domain.CallAwaitingAnswer
	}
	if err := c.Emit(turn.SessionID, turn.ChatID, domain.EventTurnPatch, domain.AddToolCallPatch{
		TurnID: turn.EntryID, PatchType: domain.PatchAddToolCall,
		ToolCall: domain.PatchedToolCall{
			ID: call.ID, ToolName: call.ToolName, DisplayName: call.DisplayName, Arguments: call.Arguments, Status: shown,
			PendingQuestionRef: asked,
		},
	}); err != nil || call.Settled == nil {
		return err
	}
	return c.Emit(turn.SessionID, turn.ChatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: turn.EntryID, PatchType: domain.PatchToolResult, ToolCallID: call.ID,
		Result: call.Settled.Result, Status: call.Settled.Status,
	})
}

// FinishedCalls gives the calls of a turn that was closed already, for a worker
// whose report was lost: those that still have to run, and how many questions
// the turn asked. Calls that wait for permission are not to run yet.
func (db *DB) FinishedCalls(ctx context.Context, entryID string) (open []domain.PlannedCall, asked int, err error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT t.id, t.tool_name, t.display_name, t.arguments, t.status, l.max_steps, l.time_limit_s
		FROM   tool_calls t LEFT JOIN loops l ON l.id = t.id AND NOT l.background
		WHERE  t.entry_id = $1 AND NOT (t.phase = 'finished' AND t.attempt = 0) AND `+permitted+` ORDER BY t.position`, entryID)
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var call domain.PlannedCall
		var status domain.ToolCallStatus
		var steps, seconds *int
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
