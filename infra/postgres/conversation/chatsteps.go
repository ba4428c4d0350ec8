package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/chat"
	"everloop/domain/speech"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/internal/durable"
)

// BeginChat lets a run take the session's next chat: its message becomes a user
// turn and the chat starts for clients. A run that asks again, or that replaces
// a lost one, is given the chat that is already running.
func (s *Store) BeginChat(ctx context.Context, in contract.BeginChatIn) (contract.BeginChatOut, error) {
	var out contract.BeginChatOut

	err := s.Update(ctx, func(tx *pg.Tx) error {
		out = contract.BeginChatOut{}
		session, err := sessions.Lock(ctx, tx, in.SessionID, "")
		if domain.HasCode(err, domain.CodeSessionNotFound) {
			return nil // deleted in the meantime: there is nothing to run
		}

		if err != nil {
			return err
		}

		claims := chat.Claim(session.Chats())
		if claims == chat.ClaimNothing {
			return nil
		}

		if out, err = openChat(ctx, tx, session, in.RunID); err != nil {
			return err
		}

		if out.ChatID == "" && claims != chat.ClaimOpen && !session.OwnerClosed {
			if out, err = takeNext(ctx, tx, session, in.RunID); err != nil {
				return err
			}
		}

		if out.ChatID == "" {
			out = contract.BeginChatOut{}
			return nil
		}

		out.InitTask, err = runningInitTask(ctx, tx, session)

		return err
	})

	return out, err
}

// runningInitTask names the task of the session's init script while that runs.
func runningInitTask(ctx context.Context, tx pgx.Tx, session sessions.Locked) (string, error) {
	if session.InitTaskID == nil {
		return "", nil
	}

	var id string

	err := tx.QueryRow(ctx, `SELECT id FROM background_tasks WHERE id = $1 AND status = 'running'`, *session.InitTaskID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}

	return id, err
}

// openChat returns the session's running or parked chat to the run that asks.
// Only one run of a session is open at a time, so the run that had the chat before
// is gone; wakes of chats that have ended in the meantime were for it. When that run was
// lost, chat:start comes again with resumed: true.
func openChat(ctx context.Context, tx *pg.Tx, session sessions.Locked, runID string) (contract.BeginChatOut, error) {
	out := contract.BeginChatOut{MaxSteps: domain.MostSteps}

	var start domain.ChatStarted

	err := tx.QueryRow(ctx, `
		WITH ended AS (UPDATE chats SET wake_pending = false WHERE session_id = $1 AND wake_pending AND state = 'ended'),
		open AS (
			SELECT id, state = 'running' AND coalesce(restarted_run = run_id, false) AND run_id <> $3 AS resumed
			FROM   chats WHERE session_id = $1 AND state IN ('running', 'parked') ORDER BY id LIMIT 1)
		UPDATE chats c SET workflow_id = $2, run_id = $3, wake_pending = false FROM open WHERE c.id = open.id
		RETURNING c.id, c.state = 'parked', c.mode, c.steps, c.headless, CASE WHEN c.round > 1 THEN 'answer'
		    ELSE c.trigger END, open.resumed`,
		session.ID, durable.SessionWorkflowID(string(session.ID)), runID).
		Scan(&out.ChatID, &out.Parked, &out.Mode, &out.Step, &start.Headless, &start.Trigger, &start.Resumed)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, nil
	}

	if err != nil {
		return out, err
	}

	start.Mode = out.Mode
	if start.Resumed {
		if err := tx.Emit(session.ID, out.ChatID, domain.EventChatStart, start); err != nil {
			return out, err
		}
	}

	return out, loseForks(ctx, tx, out.ChatID)
}

// takeNext claims the first message of the queue. Its content continues in the
// conversation; the row stays, so that the same client_message_id is known again.
func takeNext(ctx context.Context, tx *pg.Tx, session sessions.Locked, runID string) (contract.BeginChatOut, error) {
	out := contract.BeginChatOut{MaxSteps: domain.MostSteps}

	var (
		turnID domain.TurnID
		parts  []domain.ContentPart
	)

	err := tx.QueryRow(ctx, `
		WITH next AS (
			SELECT id, parts FROM inbox WHERE session_id = $1 AND state = 'queued' AND kind = 'message'
			ORDER  BY front DESC, id LIMIT 1)
		UPDATE inbox i SET state = 'taken', parts = '[]' FROM next n WHERE i.id = n.id
		RETURNING i.chat_id, i.turn_id, n.parts`, session.ID).Scan(&out.ChatID, &turnID, &parts)
	if errors.Is(err, pgx.ErrNoRows) {
		return contract.BeginChatOut{}, nil
	}

	if err != nil {
		return out, err
	}

	var start domain.ChatStarted

	err = tx.QueryRow(ctx, `
		UPDATE chats SET state = 'running', workflow_id = $2, run_id = $3, branch_id = $4, round = 1,
		       waiting_reason = 'model', started_at = now()
		WHERE  id = $1 RETURNING mode, headless, trigger`,
		out.ChatID, durable.SessionWorkflowID(string(session.ID)), runID, session.BranchID).
		Scan(&start.Mode, &start.Headless, &start.Trigger)
	if err != nil {
		return out, fmt.Errorf("start chat: %w", err)
	}

	out.Mode = start.Mode
	if _, err := tx.Exec(ctx, `
		UPDATE sessions SET active_chat_id = $2, status = 'running', updated_at = now() WHERE id = $1`,
		session.ID, out.ChatID); err != nil {
		return out, err
	}

	if err := tx.Emit(session.ID, out.ChatID, domain.EventChatStart, start); err != nil {
		return out, err
	}

	if len(parts) > 0 { // a what-if without a message simply runs on
		if err := addUserTurn(ctx, tx, session.ID, session.BranchID, out.ChatID, turnID, parts); err != nil {
			return out, err
		}
	}

	return out, sessions.EmitUpdated(ctx, tx, session.ID)
}

// ParkChat ends a chat for clients while its questions wait for their answers
// (finish_reason awaiting_answer), if chat.Wait lets it wait.
func (s *Store) ParkChat(ctx context.Context, in contract.ParkChatIn) (contract.ParkChatOut, error) {
	var out contract.ParkChatOut

	err := s.Update(ctx, func(tx *pg.Tx) error {
		session, found, err := lockChat(ctx, tx, in.ChatID)
		if errors.Is(err, pgx.ErrNoRows) {
			out.State = contract.Closed // as in FinishChat
			return nil
		}

		if err != nil {
			return err
		}

		questions, allowed := 0, false
		if found.State == domain.ChatStateRunning {
			err := tx.QueryRow(ctx, `
				SELECT (SELECT count(*) FROM questions WHERE chat_id = $1 AND state = 'open'), `+freed, in.ChatID).
				Scan(&questions, &allowed)
			if err != nil {
				return err
			}
		}

		if allowed && !in.Children {
			questions = 0 // a call that was allowed runs first
		}

		next := chat.Wait(found.State, questions, found.StopRequested)

		out.State = parkState(next)
		if next == found.State {
			return nil
		}

		if _, err := tx.Exec(ctx, `
			UPDATE chats SET state = 'parked', waiting_reason = 'question', finish_reason = $2, wake_pending = false WHERE id = $1`,
			in.ChatID, domain.FinishAwaitingAnswer); err != nil {
			return err
		}

		return endRound(ctx, tx, session, found, ending{reason: domain.FinishAwaitingAnswer})
	})

	return out, err
}

// CheckChat returns to a parked run, after a wake or its cancellation, the state of its chat.
func (s *Store) CheckChat(ctx context.Context, in contract.CheckChatIn) (contract.ParkChatOut, error) {
	if in.Stop {
		if err := s.stopWaiting(ctx, in.ChatID); err != nil {
			return contract.ParkChatOut{}, err
		}
	}

	var state domain.ChatState

	err := s.Pool.QueryRow(ctx, `UPDATE chats SET wake_pending = false WHERE id = $1 RETURNING state`, in.ChatID).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return contract.ParkChatOut{State: contract.Closed}, nil
	}

	return contract.ParkChatOut{State: parkState(state)}, err
}

// stopWaiting ends a chat if it waits for an answer. A chat that does not exist has ended.
func (s *Store) stopWaiting(ctx context.Context, chatID domain.ChatID) error {
	return s.Update(ctx, func(tx *pg.Tx) error {
		session, found, err := lockChat(ctx, tx, chatID)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && found.State != domain.ChatStateWaiting {
			return nil
		}

		if err != nil {
			return err
		}

		return stopWaitingChat(ctx, tx, session.ID, chatID)
	})
}

func parkState(state domain.ChatState) contract.ParkState {
	switch state {
	case domain.ChatStateWaiting:
		return contract.Parked
	case domain.ChatStateRunning:
		return contract.Answered
	default:
		return contract.Closed
	}
}

// lockedChat is what the end of a chat is decided on.
type lockedChat struct {
	ID            domain.ChatID    `db:"id"`
	SessionID     domain.SessionID `db:"session_id"`
	State         domain.ChatState `db:"state"`
	Headless      bool             `db:"headless"`
	OutputSchema  json.RawMessage  `db:"output_schema"`
	Round         int              `db:"round"`
	Steps         int              `db:"steps"`
	InputTokens   int64            `db:"input_tokens"`
	OutputTokens  int64            `db:"output_tokens"`
	CacheRead     int64            `db:"cache_read_tokens"`
	CacheWrite    int64            `db:"cache_write_tokens"`
	Cost          domain.Cost      `db:"cost_nano"`
	Uncosted      int64            `db:"uncosted_tokens"`
	DurationMS    int64            `db:"duration_ms"`
	StopRequested bool             `db:"stop_requested"`
	Waiter        string           `db:"waiter"` // the workflow that waits for the end; empty: none
}

// usage returns what all model calls of the chat have used.
func (c lockedChat) usage() domain.Usage {
	return domain.Usage{
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, CacheReadTokens: c.CacheRead, CacheWriteTokens: c.CacheWrite,
		Cost: c.Cost, UncostedTokens: c.Uncosted,
	}.Shown()
}

// lockChat takes the row lock of the chat's session, which orders everything
// that decides about chats, and reads the chat under it.
func lockChat(ctx context.Context, tx pgx.Tx, chatID domain.ChatID) (sessions.Locked, lockedChat, error) {
	session, err := sessions.LockOfChat(ctx, tx, chatID)
	if err != nil {
		return session, lockedChat{}, fmt.Errorf("lock the session of chat %s: %w", chatID, err)
	}

	rows, _ := tx.Query(ctx, `
		SELECT id, session_id, state, headless, output_schema, round, steps, input_tokens, output_tokens, cache_read_tokens,
		    cache_write_tokens, cost_nano,
		       uncosted_tokens, stop_requested, coalesce(waiter, '') AS waiter,
		       (extract(epoch FROM now() - coalesce(started_at, now())) * 1000)::bigint AS duration_ms
		FROM   chats WHERE id = $1`, chatID)
	chat, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[lockedChat])

	return session, chat, err
}

// FinishChat ends a chat with its cause, exactly once, as chat.Finish decides: open
// turns, calls and questions are closed, and chat:end is emitted. Restored holds, by
// entry, the blocks of open turns as the event log has them. A chat that does not exist
// has ended: the database was restored to a time before it, and its run ends.
func (s *Store) FinishChat(
	ctx context.Context,
	in contract.FinishChatIn,
	restored map[domain.TurnID][]domain.Block,
) (contract.FinishChatOut, error) {
	var out contract.FinishChatOut

	err := s.Update(ctx, func(tx *pg.Tx) error {
		out = contract.FinishChatOut{}

		session, found, err := lockChat(ctx, tx, in.ChatID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		if err != nil {
			return err
		}

		if end := chat.Finish(found.State, found.StopRequested, in.Reason); end.Ends {
			if end.UnlessSteered {
				if out.More, err = steered(ctx, tx, found); err != nil || out.More {
					return err
				}
			}

			in.Reason = end.Reason
			if err := endChat(ctx, tx, session, found, in, restored); err != nil {
				return err
			}
		}

		n, err := QueueLength(ctx, tx, session.ID)
		out.Next = n > 0

		return err
	})

	return out, err
}

// steered reports whether a message waits to join the chat.
func steered(ctx context.Context, tx pgx.Tx, chat lockedChat) (waits bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM inbox WHERE session_id = $1 AND chat_id = $2 AND kind = 'steer' AND state = 'queued')`,
		chat.SessionID, chat.ID).Scan(&waits)

	return waits, err
}

func endChat(
	ctx context.Context,
	tx *pg.Tx,
	session sessions.Locked,
	chat lockedChat,
	in contract.FinishChatIn,
	restored map[domain.TurnID][]domain.Block,
) error {
	end := ending{reason: in.Reason, code: in.Code, message: in.Message}
	if chat.Headless && in.Reason == domain.FinishCompleted {
		var err error
		if end, err = headlessEnd(ctx, tx, chat); err != nil {
			return err
		}
	}

	if err := closeOpenWork(ctx, tx, chat, end.reason, restored); err != nil {
		return err
	}

	if err := requeueSteered(ctx, tx, chat.SessionID, chat.ID); err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none',
		       finish_reason = $2, error_code = nullif($3, ''), error_message = nullif($4, '')
		WHERE  id = $1`, chat.ID, end.reason, end.code, end.message); err != nil {
		return err
	}

	tx.ChatEnded(domain.ChatWaiter{ChatID: chat.ID, WorkflowID: chat.Waiter})

	return endRound(ctx, tx, session, chat, end)
}

// passing are the codes of chats that failed for reasons which may pass: the
// same message may succeed later.
var passing = []string{
	domain.CodeModelUnavailable, domain.CodeModelRetry, durable.CodeTimeout, domain.CodeRunLost, speech.CodeDown,
	domain.CodeServiceDown, domain.CodeInternal,
}

type ending struct {
	reason  domain.FinishReason
	code    string
	message string
	result  *domain.ChatResult // of a headless chat
}

// endRound emits chat:end and leaves the session to the next chat.
func endRound(ctx context.Context, tx *pg.Tx, session sessions.Locked, chat lockedChat, end ending) error {
	event := domain.ChatEnded{
		Status: end.reason.Status(), FinishReason: end.reason, Steps: chat.Steps, DurationMS: chat.DurationMS,
		Usage: chat.usage(),
	}
	if end.code != "" {
		event.Error = &domain.ChatError{Code: end.code, Message: end.message, Retryable: slices.Contains(passing, end.code)}
	}

	event.Result = end.result
	if err := emitChatEnd(ctx, tx, session.ID, chat.ID, chat.Round, event); err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `
		UPDATE sessions SET active_chat_id = NULL, status = $3, updated_at = now(), last_end = $4
		WHERE  id = $1 AND (active_chat_id = $2 OR active_chat_id IS NULL)`,
		session.ID, chat.ID, end.reason.SessionStatus(), domain.LastEnd{ChatID: chat.ID, ChatEnded: event}); err != nil {
		return err
	}

	return sessions.EmitUpdated(ctx, tx, session.ID)
}

// emitChatEnd reports the end of a round of a chat to clients, and to the webhooks of its
// owner. A chat that ends in the queue has round 0.
func emitChatEnd(
	ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, chatID domain.ChatID, round int, end domain.ChatEnded,
) error {
	if err := tx.EmitDerived(domain.ChatEndID(chatID, round), sessionID, chatID, domain.EventChatEnd, end); err != nil {
		return err
	}

	return notify.ChatEnded(ctx, tx, sessionID, chatID, end)
}

// closeOpenWork ends what the chat left open: streaming turns with the text that
// clients have seen, calls as cancelled, questions as cancelled.
func closeOpenWork(
	ctx context.Context,
	tx *pg.Tx,
	chat lockedChat,
	reason domain.FinishReason,
	restored map[domain.TurnID][]domain.Block,
) error {
	turnStatus := domain.TurnInterrupted
	if reason != domain.FinishInterrupted {
		turnStatus = domain.TurnFailed
	}

	for entry, blocks := range restored {
		if _, err := tx.Exec(ctx, `
			UPDATE entries SET blocks = $2 WHERE id = $1 AND chat_id = $3 AND status = 'streaming' AND `+ofChat("loop_id"),
			entry, blocks, chat.ID); err != nil {
			return err
		}
	}

	asked, err := openQuestionsOfChat(ctx, tx, chat.ID)
	if err != nil {
		return err
	}

	if err := cancelQuestions(ctx, tx, chat.SessionID, asked, string(reason)); err != nil {
		return err
	}

	if err := cancelOpenCalls(ctx, tx, chat.SessionID, chat.ID, cancelledResult); err != nil {
		return err
	}

	if err := endLoopsOfChat(ctx, tx, chat.ID); err != nil {
		return err
	}

	why := ""
	if turnStatus == domain.TurnFailed {
		why = "the chat ended: " + string(reason)
	}

	return closeTurns(ctx, tx, chat.SessionID, chat.ID, turnStatus, why, `chat_id = $1 AND `+ofChat("loop_id"), chat.ID)
}

func openQuestionsOfChat(ctx context.Context, tx pgx.Tx, chatID domain.ChatID) ([]domain.Question, error) {
	rows, _ := tx.Query(ctx, `SELECT `+questionColumns+` FROM questions WHERE chat_id = $1 AND state = 'open' ORDER BY id`, chatID)
	return pgx.CollectRows(rows, pgx.RowToStructByName[domain.Question])
}

// cancelOpenCalls cancels the chat's calls that have no result.
func cancelOpenCalls(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, chatID domain.ChatID, result string) error {
	return cancelCalls(ctx, tx, sessionID, chatID, result, `NOT EXISTS (
		SELECT 1 FROM entries e WHERE e.id = tool_calls.entry_id AND NOT (`+ofChat("e.loop_id")+`))`)
}

// requeueSteered gives messages that could not join the chat any more a chat of
// their own, so that no acknowledged message is lost. It works as the message
// says, and in the mode of the chat where the message says none.
func requeueSteered(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, chatID domain.ChatID) error {
	rows, _ := tx.Query(ctx, `
		SELECT id FROM inbox WHERE session_id = $1 AND chat_id = $2 AND kind = 'steer' AND state = 'queued' ORDER BY id`, sessionID, chatID)

	left, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}

	for _, row := range left {
		next := domain.NewID()
		if _, err := tx.Exec(ctx, `
			INSERT INTO chats (id, session_id, branch_id, trigger, mode, headless, output_schema, model, state)
			SELECT $2, c.session_id, c.branch_id, c.trigger, coalesce(i.mode, c.mode), i.headless, i.output_schema, c.model, 'queued'
			FROM   chats c, inbox i WHERE c.id = $1 AND i.id = $3`, chatID, next, row); err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `UPDATE inbox SET kind = 'message', chat_id = $2 WHERE id = $1`, row, next); err != nil {
			return err
		}
	}

	return nil
}
