package sessions

import (
	"context"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// ComputedWaiting is a column for the waiting reason of the session row s: from
// its chat while one runs (child when only sub-agents work, slot when one of them
// must wait for others), from its question, its queue or its budget otherwise.
// A chat that waits for the init script of its session waits for a tool.
// worker_missing comes before what a chat waits for: without workers nothing else
// can change. A queue that no worker takes within five seconds has no worker either; a
// message that waited for the chat before it only started to wait for a worker when the
// session changed last.
const ComputedWaiting = `
	CASE
		WHEN s.active_chat_id IS NOT NULL AND ` + workersGone + ` THEN 'worker_missing'
		WHEN s.active_chat_id IS NOT NULL AND s.init_task_id IS NOT NULL AND EXISTS (
			SELECT 1 FROM background_tasks b WHERE b.id = s.init_task_id AND b.status = 'running') THEN 'tool'
		WHEN s.active_chat_id IS NOT NULL THEN coalesce((SELECT ` + chatWaiting + ` FROM chats c WHERE c.id = s.active_chat_id), 'none')
		WHEN s.status = 'waiting_for_input' THEN (
			SELECT CASE WHEN bool_and(q.guards IS NOT NULL) THEN 'permission' ELSE 'question' END
			FROM   questions q WHERE q.session_id = s.id AND q.state = 'open')
		ELSE coalesce((
			SELECT CASE WHEN greatest(min(i.created_at), s.updated_at) < now() - interval '5 seconds' OR ` + workersGone + `
			            THEN 'worker_missing' ELSE 'queued' END
			FROM   inbox i WHERE i.session_id = s.id AND i.state = 'queued' HAVING count(*) > 0),
			CASE WHEN s.status = 'failed' AND (
				SELECT c.finish_reason FROM chats c WHERE c.session_id = s.id ORDER BY c.id DESC
				    LIMIT 1) = 'budget_exhausted' THEN 'budget' END,
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

// EmitUpdated emits session:updated with the session's summary as it is in this
// transaction, and notes the waiting reason that it reports.
func EmitUpdated(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID) error {
	return EmitMoved(ctx, tx, sessionID, nil)
}

// EmitMoved is EmitUpdated after a change of the active branch.
func EmitMoved(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, moved *domain.HistoryMoved) error {
	u := domain.SessionUpdated{History: moved}

	err := tx.QueryRow(ctx, `
		WITH now AS (
			SELECT s.status, `+ComputedWaiting+` AS reason, s.intent, s.model, `+computedQueue+` AS queued
			FROM   sessions s WHERE s.id = $1),
		reported AS (
			UPDATE sessions s SET waiting_reported = nullif(now.reason, 'none')
			FROM   now WHERE s.id = $1 AND s.waiting_reported IS DISTINCT FROM nullif(now.reason, 'none'))
		SELECT status, reason, intent, model, queued FROM now`, sessionID).
		Scan(&u.Status, &u.WaitingReason, &u.Intent, &u.Model, &u.QueueLength)
	if err != nil {
		return err
	}

	return tx.Emit(sessionID, "", domain.EventSessionUpdated, u)
}

// SetStatus sets the status of a session and emits session:updated.
func SetStatus(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, status domain.SessionStatus) error {
	if _, err := tx.Exec(ctx, `UPDATE sessions SET status = $2, updated_at = now() WHERE id = $1`, sessionID, status); err != nil {
		return err
	}

	return EmitUpdated(ctx, tx, sessionID)
}
