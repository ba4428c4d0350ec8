package conversation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// CountRestart counts that the run of a running chat was lost, once for each run. The
// count starts over when the chat has completed a turn since; one that was interrupted
// with its run is no progress.
func (db *Base) CountRestart(ctx context.Context, chatID domain.ChatID, runID string) (domain.Restart, error) {
	restart := domain.Restart{Running: true}

	err := db.Pool.QueryRow(ctx, `
		UPDATE chats c
		SET    restarts = CASE WHEN was.counted THEN c.restarts WHEN was.steps > c.restart_steps THEN 1 ELSE c.restarts + 1 END,
		       restart_steps = CASE WHEN was.counted THEN c.restart_steps ELSE was.steps END, restarted_run = $2
		FROM   (SELECT id, coalesce(restarted_run = $2, false) AS counted, coalesce((
		            SELECT e.step FROM entries e
		            WHERE  e.chat_id = $1 AND e.loop_id = 'root' AND e.status IN ('completed', 'paused') ORDER BY e.step DESC LIMIT 1),
		                0) AS steps
		        FROM chats WHERE id = $1 FOR UPDATE) was
		WHERE  c.id = was.id AND c.state = 'running'
		RETURNING c.restarts, NOT was.counted, coalesce(c.force_failed, '')`, chatID, runID).
		Scan(&restart.Count, &restart.Counted, &restart.ForceFailed)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.Restart{}, nil
	}

	return restart, pg.Fault("count a lost run", err)
}

// ForceFailChat lets the session's running chat fail, with the reason, as soon as its
// run is closed, instead of continuing in a new run.
func (db *Base) ForceFailChat(ctx context.Context, sessionID domain.SessionID, reason string) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE chats SET force_failed = $2
		WHERE  id = (SELECT active_chat_id FROM sessions WHERE id = $1) AND state = 'running'`, sessionID, reason)

	return pg.Fault("force a chat to fail", err)
}

// AbandonChat fails a chat with as little work as possible, for one whose ordinary end
// keeps failing: there is no result, and no text is restored. What it left open is
// closed as far as that succeeds; clients see the end of the chat, and read the rest
// when they load the session. Next reports that another chat is queued.
func (s *Store) AbandonChat(ctx context.Context, chatID domain.ChatID, code, message string) (next bool, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		session, chat, err := lockChat(ctx, tx, chatID)
		if err != nil {
			return err
		}

		if chat.State.Open() {
			if err := s.abandon(ctx, tx, session, chat, code, message); err != nil {
				return err
			}
		}

		n, err := QueueLength(ctx, tx, session.ID)
		next = n > 0

		return err
	})

	return next, pg.Fault("abandon a chat", err)
}

func (s *Store) abandon(ctx context.Context, tx *pg.Tx, session sessions.Locked, chat lockedChat, code, message string) error {
	for _, part := range []struct {
		what  string
		close func(tx pgx.Tx) error
	}{
		{"questions", func(tx pgx.Tx) error { return execFor(ctx, tx, abandonQuestions, chat.ID) }},
		{"turns", func(tx pgx.Tx) error { return execFor(ctx, tx, abandonTurns, chat.ID) }},
		{"tool calls", func(tx pgx.Tx) error { return execFor(ctx, tx, abandonCalls, chat.ID) }},
		{"sub-agents", func(tx pgx.Tx) error { return endLoopsOfChat(ctx, tx, chat.ID) }},
		{"messages", func(tx pgx.Tx) error { return requeueSteered(ctx, tx, session.ID, chat.ID) }},
	} {
		if err := pgx.BeginFunc(ctx, tx.Tx, part.close); err != nil { // a savepoint: the rest continues without it
			s.logger.Error("failed to close what an abandoned chat left open",
				"session_id", session.ID, "chat_id", chat.ID, "part", part.what, "error", err)
		}
	}

	if _, err := tx.Exec(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none', finish_reason = $2, error_code = $3, error_message = $4
		WHERE  id = $1`, chat.ID, domain.FinishFailed, code, message); err != nil {
		return err
	}

	tx.ChatEnded(domain.ChatWaiter{ChatID: chat.ID, WorkflowID: chat.Waiter})

	return endRound(ctx, tx, session, chat, ending{reason: domain.FinishFailed, code: code, message: message})
}

var (
	abandonQuestions = `
		UPDATE questions SET state = 'cancelled', resolved_by = 'failed', resolved_at = now()
		WHERE  chat_id = $1 AND state = 'open' AND ` + ofChat("loop_id")
	abandonTurns = `
		UPDATE entries SET status = 'failed', ended_at = now(), attempt = attempt + 1, failure_reason = 'the chat ended: failed'
		WHERE  chat_id = $1 AND status IN ('streaming', 'paused') AND ` + ofChat("loop_id")
	abandonCalls = `
		UPDATE tool_calls SET status = 'cancelled', phase = 'finished', attempt = attempt + 1, result = '` + cancelledResult + `'
		WHERE  chat_id = $1 AND status IN ('pending', 'awaiting_answer')
		AND    EXISTS (SELECT 1 FROM entries e WHERE e.id = tool_calls.entry_id AND ` + ofChat("e.loop_id") + `)`
)

func execFor(ctx context.Context, tx pgx.Tx, statement string, chatID domain.ChatID) error {
	_, err := tx.Exec(ctx, statement, chatID)
	return err
}
