package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// BeginChat lets a run take the session's next chat: its message becomes a user
// turn and the chat starts for clients. A run that asks again, or that replaces
// a lost one, is given the chat that is already running.
func (j *Journal) BeginChat(ctx context.Context, in contract.BeginChatIn) (contract.BeginChatOut, error) {
	var out contract.BeginChatOut
	err := j.Commit(ctx, func(c *Change) error {
		out = contract.BeginChatOut{}
		session, err := lockSession(ctx, c, in.SessionID, "")
		if domain.HasCode(err, domain.CodeSessionNotFound) {
			return nil // deleted meanwhile: there is nothing to run
		}
		if err != nil {
			return err
		}
		if session.Replaying {
			return nil // its chats are carried by its replay
		}
		open, err := openChat(ctx, c, session, in.RunID)
		if err != nil || open.ChatID != "" {
			out = open
			return err
		}
		if session.OperationID != nil {
			return nil // whoever ends the operation wakes the session
		}
		out, err = takeNext(ctx, c, session, in.RunID)
		return err
	})
	return out, err
}

// openChat gives the session's running or parked chat to the run that asks.
// Only one run of a session is open at a time, so whoever had the chat before
// is gone.
func openChat(ctx context.Context, c *Change, session lockedSession, runID string) (contract.BeginChatOut, error) {
	out := contract.BeginChatOut{MaxSteps: domain.MostSteps}
	err := c.QueryRow(ctx, `
		UPDATE chats SET workflow_id = $2, run_id = $3, wake_pending = false
		WHERE  id = (SELECT id FROM chats WHERE session_id = $1 AND state IN ('running', 'parked') ORDER BY id LIMIT 1)
		RETURNING id, state = 'parked', mode, steps`,
		session.ID, durable.SessionWorkflowID(session.ID), runID).
		Scan(&out.ChatID, &out.Parked, &out.Mode, &out.Step)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Title = session.Intent
	return out, loseForks(ctx, c, out.ChatID)
}

// takeNext claims the first message of the queue.
func takeNext(ctx context.Context, c *Change, session lockedSession, runID string) (contract.BeginChatOut, error) {
	out := contract.BeginChatOut{MaxSteps: domain.MostSteps}
	var turnID string
	var parts []domain.ContentPart
	err := c.QueryRow(ctx, `
		UPDATE inbox SET state = 'taken'
		WHERE  id = (SELECT id FROM inbox WHERE session_id = $1 AND state = 'queued' AND kind = 'message'
		             ORDER BY front DESC, id LIMIT 1)
		RETURNING chat_id, turn_id, parts`, session.ID).Scan(&out.ChatID, &turnID, &parts)
	if errors.Is(err, pgx.ErrNoRows) {
		return contract.BeginChatOut{}, nil
	}
	if err != nil {
		return out, err
	}
	var start domain.ChatStarted
	err = c.QueryRow(ctx, `
		UPDATE chats SET state = 'running', workflow_id = $2, run_id = $3, branch_id = $4, round = 1,
		       waiting_reason = 'model', started_at = now()
		WHERE  id = $1 RETURNING mode, headless, trigger`,
		out.ChatID, durable.SessionWorkflowID(session.ID), runID, session.BranchID).
		Scan(&start.Mode, &start.Headless, &start.Trigger)
	if err != nil {
		return out, fmt.Errorf("start chat: %w", err)
	}
	out.Mode, out.Title = start.Mode, title(parts)
	if _, err := c.Exec(ctx, `
		UPDATE sessions SET active_chat_id = $2, status = 'running', updated_at = now() WHERE id = $1`,
		session.ID, out.ChatID); err != nil {
		return out, err
	}
	if err := c.Emit(session.ID, out.ChatID, domain.EventChatStart, start); err != nil {
		return out, err
	}
	if len(parts) > 0 { // a what-if without a message simply runs on
		if err := addUserTurn(ctx, c, session.ID, session.BranchID, out.ChatID, turnID, parts); err != nil {
			return out, err
		}
	}
	return out, emitSession(ctx, c, session.ID)
}

// ParkChat ends a chat for clients while its questions wait for their answers
// (finish_reason awaiting_answer). A chat whose questions were all resolved
// meanwhile goes on at once.
func (j *Journal) ParkChat(ctx context.Context, in contract.ParkChatIn) (contract.ParkChatOut, error) {
	var out contract.ParkChatOut
	err := j.Commit(ctx, func(c *Change) error {
		session, chat, err := lockChat(ctx, c, in.ChatID)
		if err != nil {
			return err
		}
		if chat.State != "running" {
			out.State = stateOf(chat.State)
			return nil
		}
		var open int
		if err := c.QueryRow(ctx, `SELECT count(*) FROM questions WHERE chat_id = $1 AND state = 'open'`, in.ChatID).Scan(&open); err != nil {
			return err
		}
		if open == 0 || chat.StopRequested {
			out.State = contract.Answered // a stop is found by the next model call
			return nil
		}
		out.State = contract.Parked
		if _, err := c.Exec(ctx, `
			UPDATE chats SET state = 'parked', waiting_reason = 'question', finish_reason = $2, wake_pending = false WHERE id = $1`,
			in.ChatID, domain.FinishAwaitingAnswer); err != nil {
			return err
		}
		return endRound(ctx, c, session, chat, ending{reason: domain.FinishAwaitingAnswer})
	})
	return out, err
}

// CheckChat tells a parked run, after a wake, how its chat stands.
func (j *Journal) CheckChat(ctx context.Context, in contract.CheckChatIn) (contract.ParkChatOut, error) {
	var state string
	err := j.Pool.QueryRow(ctx, `UPDATE chats SET wake_pending = false WHERE id = $1 RETURNING state`, in.ChatID).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return contract.ParkChatOut{State: contract.Closed}, nil
	}
	return contract.ParkChatOut{State: stateOf(state)}, err
}

func stateOf(state string) contract.ParkState {
	switch state {
	case "parked":
		return contract.Parked
	case "running":
		return contract.Answered
	default:
		return contract.Closed
	}
}

// lockedChat is what the end of a chat is decided on.
type lockedChat struct {
	ID            string          `db:"id"`
	SessionID     string          `db:"session_id"`
	State         string          `db:"state"`
	Headless      bool            `db:"headless"`
	OutputSchema  json.RawMessage `db:"output_schema"`
	Steps         int             `db:"steps"`
	InputTokens   int64           `db:"input_tokens"`
	OutputTokens  int64           `db:"output_tokens"`
	DurationMS    int64           `db:"duration_ms"`
	StopRequested bool            `db:"stop_requested"`
}

// lockChat takes the row lock of the chat's session, which orders everything
// that decides about chats, and reads the chat under it.
func lockChat(ctx context.Context, tx pgx.Tx, chatID string) (lockedSession, lockedChat, error) {
	var session lockedSession
	rows, _ := tx.Query(ctx, `
		SELECT id, owner_id, intent, status, model, mode, active_branch_id, active_chat_id, intent_from_message, operation_id,
		       `+isReplaying+` AS replaying
		FROM   sessions WHERE id = (SELECT session_id FROM chats WHERE id = $1) FOR UPDATE`, chatID)
	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[lockedSession])
	if err != nil {
		return session, lockedChat{}, fmt.Errorf("lock the session of chat %s: %w", chatID, err)
	}
	rows, _ = tx.Query(ctx, `
		SELECT id, session_id, state, headless, output_schema, steps, input_tokens, output_tokens, stop_requested,
		       (extract(epoch FROM now() - coalesce(started_at, now())) * 1000)::bigint AS duration_ms
		FROM   chats WHERE id = $1`, chatID)
	chat, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[lockedChat])
	return session, chat, err
}

// FinishChat ends a chat with its cause, exactly once: open turns, calls and
// questions are closed, and chat:end is told. A message steered in before a
// chat could complete keeps it going instead. Restored holds, by entry, the
// blocks of open turns as the event log has them.
func (j *Journal) FinishChat(ctx context.Context, in contract.FinishChatIn, restored map[string][]domain.Block) (contract.FinishChatOut, error) {
	var out contract.FinishChatOut
	err := j.Commit(ctx, func(c *Change) error {
		out = contract.FinishChatOut{}
		session, chat, err := lockChat(ctx, c, in.ChatID)
		if err != nil {
			return err
		}
		if chat.State == "running" || chat.State == "parked" {
			if chat.StopRequested && in.Reason == domain.FinishCompleted {
				in.Reason = domain.FinishInterrupted // the stop was acknowledged before the chat could complete
			}
			if out.More, err = steered(ctx, c, in); err != nil || out.More {
				return err
			}
			if err := endChat(ctx, c, session, chat, in, restored); err != nil {
				return err
			}
		}
		n, err := queueLength(ctx, c, session.ID)
		out.Next = n > 0
		return err
	})
	return out, err
}

// steered reports whether a message waits to join a chat that would complete.
func steered(ctx context.Context, tx pgx.Tx, in contract.FinishChatIn) (more bool, err error) {
	if in.Reason != domain.FinishCompleted {
		return false, nil
	}
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM inbox WHERE chat_id = $1 AND kind = 'steer' AND state = 'queued')`, in.ChatID).Scan(&more)
	return more, err
}

func endChat(ctx context.Context, c *Change, session lockedSession, chat lockedChat, in contract.FinishChatIn, restored map[string][]domain.Block) error {
	if err := closeOpenWork(ctx, c, chat, in.Reason, restored); err != nil {
		return err
	}
	if err := requeueSteered(ctx, c, chat.ID); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none',
		       finish_reason = $2, error_code = nullif($3, ''), error_message = nullif($4, '')
		WHERE  id = $1`, chat.ID, in.Reason, in.Code, in.Message); err != nil {
		return err
	}
	return endRound(ctx, c, session, chat, ending{reason: in.Reason, code: in.Code, message: in.Message})
}

// passing are the codes of chats that failed for reasons which may pass: the
// same message may succeed later.
var passing = []string{"model_unavailable", "model_retry", "timeout", "run_lost", domain.CodeServiceDown, domain.CodeInternal}

type ending struct {
	reason  domain.FinishReason
	code    string
	message string
}

// endRound tells clients chat:end and leaves the session to the next chat.
func endRound(ctx context.Context, c *Change, session lockedSession, chat lockedChat, end ending) error {
	event := domain.ChatEnded{
		Status: end.reason.Status(), FinishReason: end.reason, Steps: chat.Steps, DurationMS: chat.DurationMS,
		Usage: domain.Usage{InputTokens: chat.InputTokens, OutputTokens: chat.OutputTokens},
	}
	if end.code != "" {
		event.Error = &domain.ChatError{Code: end.code, Message: end.message, Retryable: slices.Contains(passing, end.code)}
	}
	if chat.Headless && end.reason == domain.FinishCompleted {
		result, err := headlessResult(ctx, c, chat)
		if err != nil {
			return err
		}
		event.Result = result
	}
	if err := c.Emit(session.ID, chat.ID, domain.EventChatEnd, event); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `
		UPDATE sessions SET active_chat_id = NULL, status = $3, updated_at = now()
		WHERE  id = $1 AND (active_chat_id = $2 OR active_chat_id IS NULL)`,
		session.ID, chat.ID, end.reason.SessionStatus()); err != nil {
		return err
	}
	return emitSession(ctx, c, session.ID)
}

// headlessResult is the last answer of the chat: as text, or as the value that
// its schema asked for (agent-service.md, "chat:end data in headless mode").
func headlessResult(ctx context.Context, tx pgx.Tx, chat lockedChat) (json.RawMessage, error) {
	var blocks []domain.Block
	err := tx.QueryRow(ctx, `
		SELECT blocks FROM entries
		WHERE  chat_id = $1 AND role = 'assistant' AND loop_id = 'root' AND status = 'completed'
		ORDER BY sequence DESC LIMIT 1`, chat.ID).Scan(&blocks)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	text := ""
	for _, b := range blocks {
		if b.Type == domain.BlockText {
			text += b.Content
		}
	}
	if chat.OutputSchema == nil {
		return json.Marshal(map[string]any{"output": text})
	}
	return json.Marshal(map[string]any{"output": json.RawMessage(text), "schema": chat.OutputSchema})
}

// closeOpenWork ends what the chat left open: streaming turns with the text that
// clients have seen, calls as cancelled, questions as cancelled.
func closeOpenWork(ctx context.Context, c *Change, chat lockedChat, reason domain.FinishReason, restored map[string][]domain.Block) error {
	turnStatus := domain.TurnInterrupted
	if reason != domain.FinishInterrupted {
		turnStatus = domain.TurnFailed
	}
	for entry, blocks := range restored {
		if _, err := c.Exec(ctx, `
			UPDATE entries SET blocks = $2 WHERE id = $1 AND chat_id = $3 AND status = 'streaming' AND `+ofChat("loop_id"),
			entry, blocks, chat.ID); err != nil {
			return err
		}
	}
	asked, err := openQuestionsOfChat(ctx, c, chat.ID)
	if err != nil {
		return err
	}
	if err := cancelQuestions(ctx, c, chat.SessionID, asked, string(reason)); err != nil {
		return err
	}
	if err := cancelOpenCalls(ctx, c, chat.SessionID, chat.ID, cancelledResult); err != nil {
		return err
	}
	if err := endLoopsOfChat(ctx, c, chat.ID); err != nil {
		return err
	}
	why := ""
	if turnStatus == domain.TurnFailed {
		why = "the chat ended: " + string(reason)
	}
	return closeTurns(ctx, c, chat.SessionID, chat.ID, turnStatus, why, `chat_id = $1 AND `+ofChat("loop_id"), chat.ID)
}

func openQuestionsOfChat(ctx context.Context, tx pgx.Tx, chatID string) ([]domain.Question, error) {
	rows, _ := tx.Query(ctx, `SELECT `+questionColumns+` FROM questions WHERE chat_id = $1 AND state = 'open' ORDER BY id`, chatID)
	return pgx.CollectRows(rows, pgx.RowToStructByName[domain.Question])
}

// cancelOpenCalls cancels the chat's calls that have no result.
func cancelOpenCalls(ctx context.Context, c *Change, sessionID, chatID, result string) error {
	return cancelCalls(ctx, c, sessionID, chatID, result, `NOT EXISTS (
		SELECT 1 FROM entries e WHERE e.id = tool_calls.entry_id AND NOT (`+ofChat("e.loop_id")+`))`)
}

// requeueSteered gives messages that could not join the chat any more a chat of
// their own, so that no acknowledged message is lost.
func requeueSteered(ctx context.Context, tx pgx.Tx, chatID string) error {
	rows, _ := tx.Query(ctx, `
		SELECT id FROM inbox WHERE chat_id = $1 AND kind = 'steer' AND state = 'queued' ORDER BY id`, chatID)
	left, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for _, row := range left {
		next := domain.NewID()
		if _, err := tx.Exec(ctx, `
			INSERT INTO chats (id, session_id, branch_id, trigger, mode, model, state)
			SELECT $2, session_id, branch_id, trigger, mode, model, 'queued' FROM chats WHERE id = $1`, chatID, next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE inbox SET kind = 'message', chat_id = $2 WHERE id = $1`, row, next); err != nil {
			return err
		}
	}
	return nil
}
