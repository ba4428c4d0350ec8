package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// lockedSession is what decisions about a session's chats are made on. Its row
// lock orders sends, stops, answers and the ends of chats.
type lockedSession struct {
	ID           string  `db:"id"`
	OwnerID      string  `db:"owner_id"`
	Intent       string  `db:"intent"`
	Status       string  `db:"status"`
	Model        *string `db:"model"`
	Mode         string  `db:"mode"`
	BranchID     string  `db:"active_branch_id"`
	ActiveChatID *string `db:"active_chat_id"`
	FromMessage  bool    `db:"intent_from_message"`
	OperationID  *string `db:"operation_id"` // what changes its history now: no chat begins meanwhile
	Replaying    bool    `db:"replaying"`    // it takes no messages, and no run but its replay's
}

// lockSession takes the session's row. An empty owner means that the caller was
// authorised otherwise.
func lockSession(ctx context.Context, tx pgx.Tx, sessionID, ownerID string) (lockedSession, error) {
	rows, _ := tx.Query(ctx, `
		SELECT id, owner_id, intent, status, model, mode, active_branch_id, active_chat_id, intent_from_message, operation_id,
		       `+isReplaying+` AS replaying
		FROM   sessions
		WHERE  id = $1 AND ($2 = '' OR owner_id = $2) AND deleted_at IS NULL
		FOR UPDATE`, sessionID, ownerID)
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[lockedSession])
	if errors.Is(err, pgx.ErrNoRows) {
		return s, domain.SessionNotFound(sessionID)
	}
	return s, err
}

// Enqueue makes a message durable and decides, under the session's lock, whether
// it runs now, waits in the queue, joins the running chat or stops it
// (decisions.md section 3). After Enqueue returned the message survives the loss
// of any process.
func (j *Journal) Enqueue(ctx context.Context, ownerID string, send domain.Send) (domain.Enqueued, error) {
	var out domain.Enqueued
	err := j.Commit(ctx, func(c *Change) error {
		out = domain.Enqueued{}
		session, err := lockSession(ctx, c, send.SessionID, ownerID)
		if err != nil {
			return err
		}
		if ack, found, err := sentBefore(ctx, c, send); err != nil || found {
			out.Ack = ack
			return err
		}
		out, err = deliver(ctx, c, session, send)
		return err
	})
	return out, err
}

// sentBefore finds the message that carries the same client_message_id.
func sentBefore(ctx context.Context, tx pgx.Tx, send domain.Send) (domain.SendAck, bool, error) {
	ack := domain.SendAck{Duplicate: true}
	if send.ClientMessageID == "" {
		return ack, false, nil
	}
	err := tx.QueryRow(ctx, `
		SELECT chat_id, turn_id, delivery_applied, position FROM inbox
		WHERE  session_id = $1 AND client_message_id = $2`, send.SessionID, send.ClientMessageID).
		Scan(&ack.ChatID, &ack.TurnID, &ack.DeliveryApplied, &ack.Position)
	if errors.Is(err, pgx.ErrNoRows) {
		return ack, false, nil
	}
	return ack, err == nil, err
}

func deliver(ctx context.Context, c *Change, session lockedSession, send domain.Send) (domain.Enqueued, error) {
	if session.Replaying {
		return domain.Enqueued{}, errReplaying()
	}
	queued, err := queueLength(ctx, c, session.ID)
	if err != nil {
		return domain.Enqueued{}, err
	}
	asked, err := openQuestions(ctx, c, session.ID)
	if err != nil {
		return domain.Enqueued{}, err
	}
	// A chat that was promised and not yet taken by a run counts as running, so
	// that what follows at once upon its acknowledgement means this chat.
	current, waiting := "", queued
	switch {
	case session.ActiveChatID != nil:
		current = *session.ActiveChatID
	case queued > 0 && len(asked) == 0:
		if current, err = nextChat(ctx, c, session.ID); err != nil {
			return domain.Enqueued{}, err
		}
		waiting--
	}
	busy := current != ""
	if session.OperationID != nil && send.Delivery == domain.DeliverReject {
		return domain.Enqueued{}, historyBusy()
	}

	switch {
	case busy && send.Delivery == domain.DeliverReject:
		return domain.Enqueued{}, domain.Newf(domain.Conflict, domain.CodeSessionBusy, "a chat is running in this session")

	case busy && send.Delivery == domain.DeliverInterrupt:
		if err := requestStop(ctx, c, current); err != nil {
			return domain.Enqueued{}, err
		}
		ack, err := queueMessage(ctx, c, session, send, domain.DeliverInterrupt, 0, true)
		return domain.Enqueued{Ack: ack, StopChat: current}, err

	case busy && (send.Delivery == domain.DeliverSteer || len(asked) > 0):
		// A message instead of an answer continues the loop that asked.
		if err := cancelQuestions(ctx, c, session.ID, asked, "message"); err != nil {
			return domain.Enqueued{}, err
		}
		ack, err := steerMessage(ctx, c, current, send)
		return domain.Enqueued{Ack: ack}, err

	case busy:
		ack, err := queueMessage(ctx, c, session, send, domain.DeliverEnqueue, waiting+1, false)
		return domain.Enqueued{Ack: ack}, err

	case len(asked) > 0:
		// The chat that asked has ended for clients; its run closes and takes
		// the message as the next chat, before any queued one.
		if err := cancelQuestions(ctx, c, session.ID, asked, "message"); err != nil {
			return domain.Enqueued{}, err
		}
		if err := closeParkedWith(ctx, c, session.ID, "Cancelled: the user sent a message instead of answering its question."); err != nil {
			return domain.Enqueued{}, err
		}
		ack, err := queueMessage(ctx, c, session, send, domain.DeliverRun, 0, true)
		return domain.Enqueued{Ack: ack}, err

	default:
		ack, err := queueMessage(ctx, c, session, send, domain.DeliverRun, 0, false)
		return domain.Enqueued{Ack: ack}, err
	}
}

// nextChat is the chat that a run is about to take; "" when nothing is queued.
func nextChat(ctx context.Context, tx pgx.Tx, sessionID string) (chatID string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT chat_id FROM inbox WHERE session_id = $1 AND state = 'queued' AND kind = 'message'
		ORDER BY front DESC, id LIMIT 1`, sessionID).Scan(&chatID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return chatID, err
}

// requestStop flags a chat. One that no run has taken yet keeps its place before
// the message that interrupts it.
func requestStop(ctx context.Context, tx pgx.Tx, chatID string) error {
	if _, err := tx.Exec(ctx, `UPDATE chats SET stop_requested = true WHERE id = $1`, chatID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE inbox SET front = true WHERE chat_id = $1 AND kind = 'message' AND state = 'queued'`, chatID)
	return err
}

func queueLength(ctx context.Context, tx pgx.Tx, sessionID string) (n int, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*) FROM inbox WHERE session_id = $1 AND state = 'queued' AND kind = 'message'`, sessionID).Scan(&n)
	return n, err
}

// queueMessage gives the message a chat of its own, which a run will take.
func queueMessage(ctx context.Context, c *Change, session lockedSession, send domain.Send,
	applied domain.Delivery, position int, front bool,
) (domain.SendAck, error) {
	ack := domain.SendAck{ChatID: domain.NewID(), TurnID: domain.NewID(), DeliveryApplied: applied, Position: position}
	mode := send.Mode
	if mode == "" {
		mode = domain.Mode(session.Mode)
	}
	_, err := c.Exec(ctx, `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, headless, output_schema, model, state)
		VALUES (@id, @session, @branch, @trigger, @mode, @headless, @schema, @model, 'queued')`,
		pgx.NamedArgs{
			"id": ack.ChatID, "session": session.ID, "branch": session.BranchID, "trigger": send.Trigger, "mode": mode,
			"headless": send.Headless, "schema": nullJSON(send.OutputSchema), "model": session.Model,
		})
	if err != nil {
		return ack, fmt.Errorf("queue chat: %w", err)
	}
	if err := insertInbox(ctx, c, send, "message", ack, front); err != nil {
		return ack, err
	}
	if session.Intent == "" && session.FromMessage {
		session.Intent = title(send.Message)
		if _, err := c.Exec(ctx, `UPDATE sessions SET intent = $2 WHERE id = $1`, session.ID, session.Intent); err != nil {
			return ack, err
		}
	}
	if applied != domain.DeliverRun {
		return ack, emitSession(ctx, c, session.ID)
	}
	return ack, nil
}

// steerMessage lets the message join the running chat before its next model call.
func steerMessage(ctx context.Context, c *Change, chatID string, send domain.Send) (domain.SendAck, error) {
	ack := domain.SendAck{ChatID: chatID, TurnID: domain.NewID(), DeliveryApplied: domain.DeliverSteer}
	return ack, insertInbox(ctx, c, send, "steer", ack, false)
}

func insertInbox(ctx context.Context, tx pgx.Tx, send domain.Send, kind string, ack domain.SendAck, front bool) error {
	parts, err := json.Marshal(send.Message)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO inbox (session_id, client_message_id, kind, chat_id, turn_id, delivery_applied, position, parts, front)
		VALUES (@session, nullif(@client, ''), @kind, @chat, @turn, @applied, @position, @parts, @front)`,
		pgx.NamedArgs{
			"session": send.SessionID, "client": send.ClientMessageID, "kind": kind, "chat": ack.ChatID, "turn": ack.TurnID,
			"applied": ack.DeliveryApplied, "position": ack.Position, "parts": parts, "front": front,
		})
	if err != nil {
		return fmt.Errorf("write inbox: %w", err)
	}
	return nil
}

// closeParkedChats ends the chats of a session that wait for an answer, with the
// sub-agents that do. They have had their chat:end, so none is told again.
// Messages that were to join them after the answer get chats of their own.
func closeParkedChats(ctx context.Context, c *Change, sessionID string) error {
	return closeParkedWith(ctx, c, sessionID, cancelledResult)
}

// closeParkedWith is closeParkedChats with what the model will read of calls
// that end so.
func closeParkedWith(ctx context.Context, c *Change, sessionID, result string) error {
	rows, _ := c.Query(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none', wake_pending = true
		WHERE  session_id = $1 AND state = 'parked' RETURNING id`, sessionID)
	closed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, chat := range closed {
		if err := cancelOpenCalls(ctx, c, sessionID, chat, result); err != nil {
			return err
		}
		if err := endLoopsOfChat(ctx, c, chat); err != nil {
			return err
		}
		if err := requeueSteered(ctx, c, chat); err != nil {
			return err
		}
	}
	return nil
}

// RequestStop flags the running chat, or closes the one that waits for an
// answer (decisions.md section 4). The flag is durable before anybody is told.
func (j *Journal) RequestStop(ctx context.Context, ownerID, sessionID string, andQueue bool) (domain.Stopped, error) {
	var out domain.Stopped
	err := j.Commit(ctx, func(c *Change) error {
		out = domain.Stopped{}
		session, err := lockSession(ctx, c, sessionID, ownerID)
		if err != nil {
			return err
		}
		if session.Replaying {
			out.Stopped, err = pauseReplay(ctx, c, session)
			return err
		}
		if andQueue {
			dropped, err := dropQueue(ctx, c, sessionID)
			if err != nil {
				return err
			}
			out.Stopped = dropped > 0
		}
		if session.ActiveChatID != nil {
			out.Stopped, out.ChatID = true, *session.ActiveChatID
			return requestStop(ctx, c, out.ChatID)
		}
		asked, err := openQuestions(ctx, c, sessionID)
		if err != nil {
			return err
		}
		if len(asked) == 0 { // at most a chat that a run is about to take
			if out.ChatID, err = nextChat(ctx, c, sessionID); err != nil || out.ChatID == "" {
				return err
			}
			out.Stopped = true
			return requestStop(ctx, c, out.ChatID)
		}
		out.Stopped, out.Wake = true, true
		if err := cancelQuestions(ctx, c, sessionID, asked, "stop"); err != nil {
			return err
		}
		if err := closeParkedChats(ctx, c, sessionID); err != nil {
			return err
		}
		return setSessionStatus(ctx, c, sessionID, domain.SessionInterrupted)
	})
	return out, err
}

// dropQueue ends every queued chat of the session with one chat:end. Messages
// that wait to join a chat go with it.
func dropQueue(ctx context.Context, c *Change, sessionID string) (int, error) {
	if _, err := c.Exec(ctx, `
		UPDATE inbox SET state = 'cancelled' WHERE session_id = $1 AND state = 'queued' AND kind = 'steer'`, sessionID); err != nil {
		return 0, err
	}
	rows, _ := c.Query(ctx, `
		WITH dropped AS (
			UPDATE inbox SET state = 'cancelled'
			WHERE  session_id = $1 AND state = 'queued' AND kind = 'message' RETURNING chat_id)
		UPDATE chats SET state = 'ended', ended_at = now(), finish_reason = 'interrupted', waiting_reason = 'none'
		FROM   dropped WHERE chats.id = dropped.chat_id RETURNING chats.id`, sessionID)
	chats, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	for _, chat := range chats {
		if err := c.Emit(sessionID, chat, domain.EventChatEnd, domain.ChatEnded{
			Status: domain.FinishInterrupted.Status(), FinishReason: domain.FinishInterrupted,
		}); err != nil {
			return 0, err
		}
	}
	if len(chats) == 0 {
		return 0, nil
	}
	return len(chats), emitSession(ctx, c, sessionID)
}

// title makes a session's intent of its first message.
func title(parts []domain.ContentPart) string {
	const most = 80
	for _, p := range parts {
		line, _, _ := strings.Cut(strings.TrimSpace(p.Text), "\n")
		if line == "" {
			continue
		}
		if utf8.RuneCountInString(line) > most {
			return string([]rune(line)[:most-1]) + "…"
		}
		return line
	}
	return ""
}

func nullJSON(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return raw
}
