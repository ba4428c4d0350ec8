package conversation

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

const questionColumns = `id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, source_loop,
	asked_at, guards, allows, expires_at, default_policy`

// OpenQuestionsOf reads the open questions of a session, the oldest first.
func OpenQuestionsOf(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID) ([]domain.Question, error) {
	rows, _ := tx.Query(ctx, openQuestions, sessionID)
	return pgx.CollectRows(rows, pgx.RowToStructByName[domain.Question])
}

const openQuestions = `SELECT ` + questionColumns + ` FROM questions WHERE session_id = $1 AND state = 'open' ORDER BY id`

// Question gives the question that a tool call asks, open or not, of a session
// that the owner has.
func (db *Base) Question(
	ctx context.Context,
	ownerID string,
	sessionID domain.SessionID,
	toolCallID string,
) (q domain.Question, open bool, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT q.id, q.session_id, q.chat_id, q.entry_id, q.tool_call_id, q.loop_id, q.questions, q.asked_at, q.guards, q.allows,
		    q.state = 'open'
		FROM   questions q JOIN sessions s ON s.id = q.session_id
		WHERE  q.session_id = $1 AND q.tool_call_id = $2 AND s.owner_id = $3 AND s.deleted_at IS NULL`,
		sessionID, toolCallID, ownerID).
		Scan(&q.ID, &q.SessionID, &q.ChatID, &q.TurnID, &q.ToolCallID, &q.LoopID, &q.Questions, &q.AskedAt, &q.Guards, &q.Allows, &open)
	if errors.Is(err, pgx.ErrNoRows) {
		none := domain.Newf(domain.Invalid, domain.CodeInvalidAnswer, "no question was asked by this tool call")
		none.Fields = []domain.Field{{Location: "body.askuser_answer.tool_call_id", Message: none.Message}}

		return q, false, none
	}

	return q, open, pg.Fault("read question", err)
}

// ResolveQuestion records the answer of the one call that wins, lets the chat go
// on when it was its last open question, and emits both. The result is what
// the model will read. A late or losing answer gives resolved false.
func (s *Store) ResolveQuestion(ctx context.Context, ownerID string, q domain.Question, by, result string) (resolved bool, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		resolved = false
		session, err := sessions.Lock(ctx, tx, q.SessionID, ownerID)
		if err != nil {
			return err
		}

		if err := session.Chats().Free(); err != nil {
			return err // an operation on the history may be about to cancel the question
		}

		tag, err := tx.Exec(ctx, `
			UPDATE questions SET state = 'answered', answer = $2, resolved_by = $3, resolved_at = now()
			WHERE  id = $1 AND state = 'open'`, q.ID, json.RawMessage(result), by)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}

		resolved = true

		if err := settleQuestion(ctx, tx, q, domain.CallDone, result, "answered", by); err != nil {
			return err
		}

		if err := decideGuarded(ctx, tx, q, by, result); err != nil {
			return err
		}

		if err := completePausedTurns(ctx, tx, q.ChatID, domain.TurnCompleted); err != nil {
			return err
		}

		return resumeWaitingChat(ctx, tx, q.SessionID, q.ChatID)
	})

	return resolved, err
}

// cancelQuestions closes open questions without an answer: by a message, a stop
// or a rewind. The model reads why.
func cancelQuestions(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, asked []domain.Question, by string) error {
	turnStatus, result := domain.TurnCompleted, "The user did not choose an answer and sent a message instead."
	if by != "message" {
		turnStatus, result = domain.TurnInterrupted, "The question was cancelled before it was answered."
	}

	chats := map[domain.ChatID]bool{}

	for _, q := range asked {
		tag, err := tx.Exec(ctx, `
			UPDATE questions SET state = 'cancelled', resolved_by = $2, resolved_at = now()
			WHERE  id = $1 AND state = 'open'`, q.ID, by)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			continue
		}

		if err := settleQuestion(ctx, tx, q, domain.CallCancelled, result, "cancelled", by); err != nil {
			return err
		}

		if err := settleGuarded(ctx, tx, q, domain.CallCancelled, "Not carried out: the user did not say whether it is "+
			"allowed."); err != nil {
			return err
		}

		chats[q.ChatID] = true
	}

	for chat := range chats {
		if err := completePausedTurns(ctx, tx, chat, turnStatus); err != nil {
			return err
		}
	}

	return nil
}

// settleQuestion closes the tool call of a question and emits it.
func settleQuestion(ctx context.Context, tx *pg.Tx, q domain.Question, status domain.ToolCallStatus, result, resolution, by string) error {
	var duration int64

	err := tx.QueryRow(ctx, `
		UPDATE tool_calls
		SET    status = $2, result = $3, phase = 'finished',
		       duration_ms = (extract(epoch FROM now() - created_at) * 1000)::bigint
		WHERE  id = $1 RETURNING duration_ms`, q.ToolCallID, status, result).Scan(&duration)
	if err != nil {
		return err
	}

	if err := tx.Emit(q.SessionID, q.ChatID, domain.EventQuestionResolved, domain.QuestionResolved{
		QuestionID: q.ID, ToolCallID: q.ToolCallID, Resolution: resolution, By: by,
	}); err != nil {
		return err
	}

	return tx.Emit(q.SessionID, q.ChatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: q.TurnID, PatchType: domain.PatchToolResult, ToolCallID: q.ToolCallID,
		Result: result, Status: status, DurationMS: duration,
	})
}

// completePausedTurns gives every paused turn of the chat, once none of its
// questions is open any more, its second turn:end.
func completePausedTurns(ctx context.Context, tx *pg.Tx, chatID domain.ChatID, status domain.TurnStatus) error {
	rows, _ := tx.Query(ctx, `
		UPDATE entries e SET status = $2
		WHERE  e.chat_id = $1 AND e.status = 'paused'
		AND    NOT EXISTS (SELECT 1 FROM questions q WHERE q.entry_id = e.id AND q.state = 'open')
		RETURNING e.session_id, e.id, e.duration_ms, `+sessions.TurnUsageColumns("e"), chatID, status)

	type ended struct {
		session  domain.SessionID
		id       domain.TurnID
		usage    domain.Usage
		duration int64
	}

	turns, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ended, error) {
		var t ended
		return t, row.Scan(append([]any{&t.session, &t.id, &t.duration}, sessions.UsageFields(&t.usage)...)...)
	})
	if err != nil {
		return err
	}

	for _, t := range turns {
		if err := tx.Emit(t.session, chatID, domain.EventTurnEnd, domain.TurnEnded{
			TurnID: t.id, Status: status, Usage: t.usage, DurationMS: t.duration,
		}); err != nil {
			return err
		}
	}

	return nil
}

// resumeWaitingChat starts the next round of a chat whose last question was answered, or
// one of whose calls the user has allowed: the same chat_id, chat:start with trigger
// answer. The conditions of its statement are those of chat.Resumes.
func resumeWaitingChat(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, chatID domain.ChatID) error {
	var (
		mode     domain.Mode
		headless bool
	)

	err := tx.QueryRow(ctx, `
		UPDATE chats SET state = 'running', round = round + 1, waiting_reason = 'model', finish_reason = NULL,
		       started_at = now(), wake_pending = true
		WHERE  id = $1 AND state = 'parked'
		AND    (NOT EXISTS (SELECT 1 FROM questions WHERE chat_id = $1 AND state = 'open') OR `+freed+`)
		RETURNING mode, headless`, chatID).Scan(&mode, &headless)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // more questions are open, or the chat has not parked yet
	}

	if err != nil {
		return err
	}

	if err := tx.Emit(sessionID, chatID, domain.EventChatStart, domain.ChatStarted{
		Mode: mode, Headless: headless, Trigger: domain.TriggerAnswer,
	}); err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `
		UPDATE sessions SET active_chat_id = $2, status = 'running', updated_at = now() WHERE id = $1`, sessionID, chatID); err != nil {
		return err
	}

	return sessions.EmitUpdated(ctx, tx, sessionID)
}

// CancelWaiting cancels the open questions of a session and ends the chats that wait for
// their answers. It returns the number of the questions and the run of the chat. By is
// recorded as the cause. The caller holds the session's lock.
func CancelWaiting(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, by string) (history.Cancelled, error) {
	var out history.Cancelled

	asked, err := OpenQuestionsOf(ctx, tx, sessionID)
	if err != nil {
		return out, err
	}

	if out.Questions = len(asked); out.Questions > 0 {
		if err := cancelQuestions(ctx, tx, sessionID, asked, by); err != nil {
			return out, err
		}
	}

	err = tx.QueryRow(ctx, `SELECT run_id FROM chats WHERE session_id = $1 AND state = 'parked' ORDER BY id
		LIMIT 1`, sessionID).Scan(&out.RunID)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, nil
	}

	if err != nil {
		return out, err
	}

	return out, closeWaitingChats(ctx, tx, sessionID)
}
