package conversation

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/chat"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// Enqueue makes a message durable and decides, under the session's lock, whether
// it runs now, waits in the queue, joins the running chat or stops it
// (docs/concepts.md#the-queue). After Enqueue returned the message survives the loss
// of any process.
func (s *Store) Enqueue(ctx context.Context, ownerID string, send domain.Send) (domain.Enqueued, error) {
	var out domain.Enqueued

	err := s.Update(ctx, func(tx *pg.Tx) error {
		out = domain.Enqueued{}

		in, err := lockForSend(ctx, tx, ownerID, send)
		if err != nil || in.before.found {
			out.Ack = in.before.ack
			return err
		}

		if in.cancelled {
			return domain.Newf(domain.Conflict, domain.CodeSendCancelled, "the run of the message was cancelled")
		}

		if in.session.OwnerClosed {
			return domain.Newf(domain.Forbidden, domain.CodeAccountClosed, "the account of the session's owner is disabled or deleted")
		}

		out, err = deliver(ctx, tx, in, send)

		return err
	})

	return out, err
}

// sendState is what the delivery of a message depends on.
type sendState struct {
	session   sessions.Locked
	before    sentBefore
	cancelled bool // the run that sends it was
	queued    int
	asked     []domain.Question // open ones
}

// lockForSend locks the session of a message and reads its state, in one round trip.
func lockForSend(ctx context.Context, tx pgx.Tx, ownerID string, send domain.Send) (in sendState, err error) {
	var batch pgx.Batch

	sessions.QueueLock(&batch, send.SessionID, ownerID, &in.session)

	if send.Waiter != "" {
		batch.Queue(pg.LockSend, send.SessionID, send.ClientMessageID)
		batch.Queue(pg.IsSendCancelled, send.SessionID, send.ClientMessageID).
			QueryRow(func(row pgx.Row) error { return row.Scan(&in.cancelled) })
	}

	if send.ClientMessageID != "" {
		batch.Queue(sentBeforeStatement, send.SessionID, send.ClientMessageID).QueryRow(in.before.scan)
	}

	batch.Queue(queueLength, send.SessionID).QueryRow(func(row pgx.Row) error { return row.Scan(&in.queued) })
	batch.Queue(openQuestions, send.SessionID).Query(func(rows pgx.Rows) (err error) {
		in.asked, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Question])
		return err
	})
	err = tx.SendBatch(ctx, &batch).Close()

	return in, err
}

// SentBefore returns the acknowledgement of the message that carries the same
// client_message_id, and whether there is one.
func SentBefore(ctx context.Context, tx pgx.Tx, send domain.Send) (domain.SendAck, bool, error) {
	var before sentBefore
	if send.ClientMessageID == "" {
		return before.ack, false, nil
	}

	err := before.scan(tx.QueryRow(ctx, sentBeforeStatement, send.SessionID, send.ClientMessageID))

	return before.ack, before.found, err
}

const sentBeforeStatement = `
	SELECT chat_id, turn_id, delivery_applied, position FROM inbox
	WHERE  session_id = $1 AND client_message_id = $2`

// sentBefore is the acknowledgement of a message that was sent before, if one was.
type sentBefore struct {
	ack   domain.SendAck
	found bool
}

func (b *sentBefore) scan(row pgx.Row) error {
	err := row.Scan(&b.ack.ChatID, &b.ack.TurnID, &b.ack.DeliveryApplied, &b.ack.Position)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	b.found, b.ack.Duplicate = err == nil, true

	return err
}

// deliver does with a message what chat.Deliver decides.
func deliver(ctx context.Context, tx *pg.Tx, in sendState, send domain.Send) (domain.Enqueued, error) {
	session, state := in.session, in.session.Chats()
	if !state.Replaying {
		state.Queued, state.Questions = in.queued, len(in.asked)
	}

	current, err := currentChat(ctx, tx, session, state)
	if err != nil {
		return domain.Enqueued{}, err
	}

	decision, err := chat.Deliver(state, send.Delivery, send.FromPerson())
	if err == nil && decision.Applied == domain.DeliverSteer {
		decision, err = joinDecision(ctx, tx, current, send)
	}

	if err != nil {
		return domain.Enqueued{}, err
	}

	var out domain.Enqueued
	if decision.StopCurrent {
		out.StopChat = current
		if err := requestStop(ctx, tx, session.ID, current); err != nil {
			return domain.Enqueued{}, err
		}
	}

	if decision.CancelQuestions {
		if err := cancelQuestions(ctx, tx, session.ID, in.asked, "message"); err != nil {
			return domain.Enqueued{}, err
		}
	}

	if decision.CloseWaiting {
		if err := closeWaitingWith(ctx, tx, session.ID, "", "Cancelled: the user sent a message instead of answering its "+
			"question."); err != nil {
			return domain.Enqueued{}, err
		}
	}

	if decision.Applied == domain.DeliverSteer {
		out.Ack, err = steerMessage(ctx, tx, current, send)
	} else {
		out.Ack, err = QueueMessage(ctx, tx, session, send, decision)
	}

	return out, err
}

// currentChat returns the chat that runs or is about to; "" when there is none.
func currentChat(ctx context.Context, tx pgx.Tx, session sessions.Locked, state chat.Session) (domain.ChatID, error) {
	switch state.Current() {
	case chat.Running:
		return *session.ActiveChatID, nil
	case chat.Promised:
		return nextChat(ctx, tx, session.ID)
	case chat.None:
	}

	return "", nil
}

// joinDecision decides whether the message can join the chat as it works.
func joinDecision(ctx context.Context, tx pgx.Tx, chatID domain.ChatID, send domain.Send) (chat.Delivery, error) {
	var works chat.Settings

	err := tx.QueryRow(ctx, `
		SELECT mode, headless, output_schema IS DISTINCT FROM $2::jsonb FROM chats
		    WHERE id = $1`, chatID, pg.NullIfEmpty(send.OutputSchema)).
		Scan(&works.Mode, &works.Headless, &works.OtherSchema)
	if err != nil {
		return chat.Delivery{}, err
	}

	return chat.Join(send.Delivery, chat.Conflict(works, send))
}

// nextChat returns the chat that a run is about to take; "" when nothing is queued.
func nextChat(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID) (chatID domain.ChatID, err error) {
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
func requestStop(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, chatID domain.ChatID) error {
	if _, err := tx.Exec(ctx, `UPDATE chats SET stop_requested = true WHERE id = $1`, chatID); err != nil {
		return err
	}

	_, err := tx.Exec(ctx, `
		UPDATE inbox SET front = true WHERE session_id = $1 AND chat_id = $2 AND kind = 'message' AND state = 'queued'`, sessionID, chatID)

	return err
}

// QueueLength counts the messages of a session that wait for a chat of their own to start.
func QueueLength(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID) (n int, err error) {
	err = tx.QueryRow(ctx, queueLength, sessionID).Scan(&n)
	return n, err
}

const queueLength = `SELECT count(*) FROM inbox WHERE session_id = $1 AND state = 'queued' AND kind = 'message'`

// QueueMessage makes a message durable as its own queued chat, which a run will take.
// The caller holds the session's lock and has decided that it may wait.
func QueueMessage(
	ctx context.Context,
	tx *pg.Tx,
	session sessions.Locked,
	send domain.Send,
	decision chat.Delivery,
) (domain.SendAck, error) {
	ack := domain.SendAck{
		ChatID:          domain.ChatID(domain.NewID()),
		TurnID:          domain.TurnID(domain.NewID()),
		DeliveryApplied: decision.Applied,
		Position:        decision.Position,
	}

	mode := send.Mode
	if mode == "" {
		mode = domain.Mode(session.Mode)
	}

	var batch pgx.Batch
	batch.Queue(`
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, headless, output_schema, model, state, waiter)
		VALUES (@id, @session, @branch, @trigger, @mode, @headless, @schema, @model, 'queued', nullif(@waiter, ''))`,
		pgx.NamedArgs{
			"id": ack.ChatID, "session": session.ID, "branch": session.BranchID, "trigger": send.Trigger, "mode": mode,
			"headless": send.Headless, "schema": pg.NullIfEmpty(send.OutputSchema), "model": session.Model,
			"waiter": send.Waiter,
		})

	if err := queueInbox(&batch, send, "message", ack, decision.Front); err != nil {
		return ack, err
	}

	if session.Intent == "" && session.FromMessage {
		batch.Queue(`UPDATE sessions SET intent = $2 WHERE id = $1`, session.ID, sessions.Title(send.Message))
	}

	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return ack, pg.Fault("queue chat", err)
	}

	if decision.Applied != domain.DeliverRun {
		return ack, sessions.EmitUpdated(ctx, tx, session.ID)
	}

	return ack, nil
}

// steerMessage lets the message join the running chat before its next model call.
func steerMessage(ctx context.Context, tx *pg.Tx, chatID domain.ChatID, send domain.Send) (domain.SendAck, error) {
	ack := domain.SendAck{ChatID: chatID, TurnID: domain.TurnID(domain.NewID()), DeliveryApplied: domain.DeliverSteer}

	var batch pgx.Batch
	if err := queueInbox(&batch, send, "steer", ack, false); err != nil {
		return ack, err
	}

	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return ack, pg.Fault("write inbox", err)
	}

	return ack, nil
}

// queueInbox adds the insertion of a message's row of the inbox to a batch.
func queueInbox(batch *pgx.Batch, send domain.Send, kind string, ack domain.SendAck, front bool) error {
	parts, err := json.Marshal(send.Message)
	if err != nil {
		return err
	}

	batch.Queue(`
		INSERT INTO inbox (session_id, client_message_id, kind, chat_id, turn_id, delivery_applied, position, parts, front,
		                   mode, headless, output_schema)
		VALUES (@session, nullif(@client, ''), @kind, @chat, @turn, @applied, @position, @parts, @front,
		        nullif(@mode, ''), @headless, @schema)`,
		pgx.NamedArgs{
			"session": send.SessionID, "client": send.ClientMessageID, "kind": kind, "chat": ack.ChatID, "turn": ack.TurnID,
			"applied": ack.DeliveryApplied, "position": ack.Position, "parts": parts, "front": front,
			"mode": send.Mode, "headless": send.Headless, "schema": pg.NullIfEmpty(send.OutputSchema),
		})

	return nil
}

// closeWaitingChats ends the chats of a session that wait for an answer, with the
// sub-agents that do. Clients have had their chat:end already. Messages that were to join
// them after the answer get chats of their own.
func closeWaitingChats(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID) error {
	return closeWaitingWith(ctx, tx, sessionID, "", cancelledResult)
}

// closeWaitingWith is closeWaitingChats for one chat, or with an empty id for all, with the
// result that the model reads of calls that end so.
func closeWaitingWith(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, chatID domain.ChatID, result string) error {
	rows, _ := tx.Query(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none', wake_pending = true
		WHERE  session_id = $1 AND state = 'parked' AND ($2 = '' OR id = $2) RETURNING `+waiterColumns, sessionID, chatID)

	closed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.ChatWaiter])
	if err != nil {
		return err
	}

	for _, ended := range closed {
		tx.ChatEnded(ended)

		if err := cancelOpenCalls(ctx, tx, sessionID, ended.ChatID, result); err != nil {
			return err
		}

		if err := endLoopsOfChat(ctx, tx, ended.ChatID); err != nil {
			return err
		}

		if err := requeueSteered(ctx, tx, sessionID, ended.ChatID); err != nil {
			return err
		}
	}

	return nil
}

// RequestStop flags the running chat, or closes the one that waits for an answer, as
// chat.Stop decides. The flag is durable before any worker is notified.
func (s *Store) RequestStop(ctx context.Context, ownerID string, sessionID domain.SessionID, andQueue bool) (domain.Stopped, error) {
	var out domain.Stopped

	err := s.Update(ctx, func(tx *pg.Tx) error {
		out = domain.Stopped{}
		session, err := sessions.Lock(ctx, tx, sessionID, ownerID)
		if err != nil {
			return err
		}

		state := session.Chats()
		if andQueue && !state.Replaying {
			dropped, err := dropQueue(ctx, tx, sessionID)
			if err != nil {
				return err
			}

			out.Stopped = dropped > 0
		}

		var asked []domain.Question
		if !state.Replaying && !state.Active {
			if asked, err = OpenQuestionsOf(ctx, tx, sessionID); err != nil {
				return err
			}

			state.Questions = len(asked)
		}

		switch chat.Stop(state) {
		case chat.StopReplay:
			out.Stopped, err = PausePlayback(ctx, tx, session)
			return err
		case chat.StopActive:
			out.Stopped, out.ChatID = true, *session.ActiveChatID
			return requestStop(ctx, tx, sessionID, out.ChatID)
		case chat.StopNext:
			if out.ChatID, err = nextChat(ctx, tx, sessionID); err != nil || out.ChatID == "" {
				return err
			}

			out.Stopped = true

			return requestStop(ctx, tx, sessionID, out.ChatID)
		case chat.StopWaiting:
			out.Stopped, out.Wake = true, true

			if err := cancelQuestions(ctx, tx, sessionID, asked, "stop"); err != nil {
				return err
			}

			if err := closeWaitingChats(ctx, tx, sessionID); err != nil {
				return err
			}

			return sessions.SetStatus(ctx, tx, sessionID, domain.SessionInterrupted)
		}

		return nil
	})

	return out, err
}

// RequestChatStop stops one chat: it flags it if it runs, closes it if it waits for an
// answer, and ends it in the queue if no run has taken it. Other chats of the session, and
// messages that were to join this one, continue.
func (s *Store) RequestChatStop(
	ctx context.Context,
	ownerID string,
	sessionID domain.SessionID,
	chatID domain.ChatID,
) (domain.Stopped, error) {
	var out domain.Stopped

	err := s.Update(ctx, func(tx *pg.Tx) error {
		out = domain.Stopped{}

		if _, err := sessions.Lock(ctx, tx, sessionID, ownerID); err != nil {
			return err
		}

		var state domain.ChatState

		err := tx.QueryRow(ctx, `SELECT state FROM chats WHERE id = $1 AND session_id = $2`, chatID, sessionID).Scan(&state)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		if err != nil {
			return err
		}

		switch state {
		case domain.ChatStateRunning:
			out.Stopped, out.ChatID = true, chatID
			return requestStop(ctx, tx, sessionID, chatID)
		case domain.ChatStateWaiting:
			out.Stopped, out.Wake = true, true
			return stopWaitingChat(ctx, tx, sessionID, chatID)
		case domain.ChatStateQueued:
			if err := requeueSteered(ctx, tx, sessionID, chatID); err != nil {
				return err
			}

			dropped, err := dropQueued(ctx, tx, sessionID, chatID)
			out.Stopped = dropped > 0

			return err
		case domain.ChatStateEnded:
		}

		return nil
	})

	return out, err
}

// stopWaitingChat closes one chat that waits for an answer, with its questions.
func stopWaitingChat(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, chatID domain.ChatID) error {
	asked, err := openQuestionsOfChat(ctx, tx, chatID)
	if err != nil {
		return err
	}

	if err := cancelQuestions(ctx, tx, sessionID, asked, "stop"); err != nil {
		return err
	}

	if err := closeWaitingWith(ctx, tx, sessionID, chatID, cancelledResult); err != nil {
		return err
	}

	return sessions.SetStatus(ctx, tx, sessionID, domain.SessionInterrupted)
}

// dropQueue ends every queued chat of the session with one chat:end. Messages
// that wait to join a chat go with it.
func dropQueue(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID) (int, error) {
	if _, err := tx.Exec(ctx, `
		UPDATE inbox SET state = 'cancelled', parts = '[]' WHERE session_id = $1 AND state = 'queued'
		    AND kind = 'steer'`, sessionID); err != nil {
		return 0, err
	}

	return dropQueued(ctx, tx, sessionID, "")
}

// dropQueued ends queued chats of the session, one or with an empty id all, each with one
// chat:end.
func dropQueued(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, chatID domain.ChatID) (int, error) {
	rows, _ := tx.Query(ctx, `
		WITH dropped AS (
			UPDATE inbox SET state = 'cancelled', parts = '[]'
			WHERE  session_id = $1 AND state = 'queued' AND kind = 'message' AND ($2 = '' OR chat_id = $2) RETURNING chat_id)
		UPDATE chats SET state = 'ended', ended_at = now(), finish_reason = 'interrupted', waiting_reason = 'none'
		FROM   dropped WHERE chats.id = dropped.chat_id RETURNING `+waiterColumns, sessionID, chatID)

	chats, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.ChatWaiter])
	if err != nil {
		return 0, err
	}

	if len(chats) == 0 {
		return 0, nil
	}

	end := domain.ChatEnded{Status: domain.FinishInterrupted.Status(), FinishReason: domain.FinishInterrupted}
	for _, ended := range chats {
		tx.ChatEnded(ended)

		if err := emitChatEnd(ctx, tx, sessionID, ended.ChatID, 0, end); err != nil {
			return 0, err
		}
	}

	if _, err := tx.Exec(ctx, `UPDATE sessions SET last_end = $2 WHERE id = $1`,
		sessionID, domain.LastEnd{ChatID: chats[len(chats)-1].ChatID, ChatEnded: end}); err != nil {
		return 0, err
	}

	return len(chats), sessions.EmitUpdated(ctx, tx, sessionID)
}

// FailQueued fails a queued chat that was acknowledged and cannot be run. One that has left
// the queue stays as it is.
func FailQueued(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, chatID domain.ChatID, code, message string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE inbox SET state = 'cancelled', parts = '[]' WHERE session_id = $1 AND chat_id = $2 AND state = 'queued'`, sessionID, chatID)
	if err != nil || tag.RowsAffected() == 0 {
		return err // a stop of the queue was quicker
	}

	ended := domain.ChatWaiter{ChatID: chatID}

	err = tx.QueryRow(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none', finish_reason = 'failed', error_code = $2,
		    error_message = $3
		WHERE  id = $1 RETURNING coalesce(waiter, '')`, chatID, code, message).Scan(&ended.WorkflowID)
	if err != nil {
		return err
	}

	tx.ChatEnded(ended)

	end := domain.ChatEnded{
		Status: domain.FinishFailed.Status(), FinishReason: domain.FinishFailed,
		Error: &domain.ChatError{Code: code, Message: message, Retryable: true},
	}
	if _, err := tx.Exec(ctx, `UPDATE sessions SET status = 'failed', last_end = $2 WHERE id = $1`,
		sessionID, domain.LastEnd{ChatID: chatID, ChatEnded: end}); err != nil {
		return err
	}

	return emitChatEnd(ctx, tx, sessionID, chatID, 0, end)
}
