package postgres

import (
	"context"

	"everloop/domain"
)

// computedWaiting answers "why is it not moving?" for the session row s: from
// its chat while one runs (child when only sub-agents work, slot when one of them
// has to wait for others), from its question, its queue or its budget otherwise. A
// queue that nobody takes within five seconds has no worker; a message that waited
// for the chat before it only began to wait for a worker when the session changed last.
const computedWaiting = `
	CASE
		WHEN s.active_chat_id IS NOT NULL THEN coalesce((SELECT ` + chatWaiting + ` FROM chats c WHERE c.id = s.active_chat_id), 'none')
		WHEN s.status = 'waiting_for_input' THEN (
			SELECT CASE WHEN bool_and(q.guards IS NOT NULL) THEN 'permission' ELSE 'question' END
			FROM   questions q WHERE q.session_id = s.id AND q.state = 'open')
		ELSE coalesce((
			SELECT CASE WHEN greatest(min(i.created_at), s.updated_at) < now() - interval '5 seconds' THEN 'worker_missing' ELSE 'queued' END
			FROM   inbox i WHERE i.session_id = s.id AND i.state = 'queued' HAVING count(*) > 0),
			CASE WHEN s.status = 'failed' AND (
				SELECT c.finish_reason FROM chats c WHERE c.session_id = s.id ORDER BY c.id DESC LIMIT 1) = 'budget_exhausted' THEN 'budget' END,
			'none')
	END`

// chatWaiting is what the chat c waits for.
const chatWaiting = `
	CASE
		WHEN c.waiting_reason <> 'tool' THEN c.waiting_reason
		WHEN EXISTS (SELECT 1 FROM loops l WHERE l.chat_id = c.id AND l.state = 'queued' AND l.task_id IS NULL) THEN 'slot'
		WHEN EXISTS (SELECT 1 FROM loops l WHERE l.chat_id = c.id AND l.state <> 'ended' AND l.task_id IS NULL)
		     AND NOT EXISTS (
			SELECT 1 FROM tool_calls t JOIN entries e ON e.id = t.entry_id
			WHERE  t.chat_id = c.id AND t.status = 'pending' AND e.loop_id = 'root'
			AND    NOT EXISTS (SELECT 1 FROM loops l WHERE l.id = t.id AND NOT l.background)) THEN 'child'
		ELSE 'tool'
	END`

// computedQueue counts the messages that wait for their chat.
const computedQueue = `
	(SELECT count(*) FROM inbox i WHERE i.session_id = s.id AND i.state = 'queued' AND i.kind = 'message')`

// sessionUpdated is the payload of session:updated.
type sessionUpdated struct {
	Status        string  `json:"status"`
	WaitingReason string  `json:"waiting_reason"`
	Intent        string  `json:"intent"`
	Model         *string `json:"model"`
	QueueLength   int     `json:"queue_length"`

	History *historyMoved `json:"history,omitempty"`
}

// emitSession tells subscribers the session's summary as it is in this change.
func emitSession(ctx context.Context, c *Change, sessionID string) error {
	return emitMovedSession(ctx, c, sessionID, nil)
}

// emitMovedSession is emitSession for a change of the active branch.
func emitMovedSession(ctx context.Context, c *Change, sessionID string, moved *historyMoved) error {
	u := sessionUpdated{History: moved}
	err := c.QueryRow(ctx, `
		SELECT s.status, `+computedWaiting+`, s.intent, s.model, `+computedQueue+`
		FROM   sessions s WHERE s.id = $1`, sessionID).
		Scan(&u.Status, &u.WaitingReason, &u.Intent, &u.Model, &u.QueueLength)
	if err != nil {
		return err
	}
	return c.Emit(sessionID, "", domain.EventSessionUpdated, u)
}

// setSessionStatus moves the session and tells of it.
func setSessionStatus(ctx context.Context, c *Change, sessionID string, status domain.SessionStatus) error {
	if _, err := c.Exec(ctx, `UPDATE sessions SET status = $2, updated_at = now() WHERE id = $1`, sessionID, status); err != nil {
		return err
	}
	return emitSession(ctx, c, sessionID)
}
