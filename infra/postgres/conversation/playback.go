package conversation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// ClosePlayback ends what the playback of a replay has left open, as a stop would: the
// open chat, its turns and calls, and questions.
func ClosePlayback(ctx context.Context, tx *pg.Tx, session sessions.Locked) error {
	if session.ActiveChatID != nil {
		_, chat, err := lockChat(ctx, tx, *session.ActiveChatID)
		if err != nil {
			return err
		}

		if err := closeOpenWork(ctx, tx, chat, domain.FinishInterrupted, nil); err != nil {
			return err
		}

		end := domain.ChatEnded{
			Status:       domain.FinishInterrupted.Status(),
			FinishReason: domain.FinishInterrupted,
			Steps:        chat.Steps,
			DurationMS:   chat.DurationMS,
			Usage:        chat.usage(),
		}
		if err := endPlayedChat(ctx, tx, domain.LastEnd{ChatID: chat.ID, ChatEnded: end}); err != nil {
			return err
		}

		if err := tx.Emit(session.ID, chat.ID, domain.EventChatEnd, end); err != nil {
			return err
		}

		return sessions.SetStatus(ctx, tx, session.ID, domain.SessionInterrupted)
	}

	if session.Status != string(domain.SessionWaitingForInput) {
		return nil
	}
	// A chat that waits for its answer has had its chat:end.
	asked, err := OpenQuestionsOf(ctx, tx, session.ID)
	if err != nil {
		return err
	}

	if err := cancelQuestions(ctx, tx, session.ID, asked, "stop"); err != nil {
		return err
	}

	if err := EndWaitingPlayback(ctx, tx, session.ID); err != nil {
		return err
	}

	return sessions.SetStatus(ctx, tx, session.ID, domain.SessionInterrupted)
}

// endPlayedChat ends the row of a played chat and releases the session.
func endPlayedChat(ctx context.Context, tx pgx.Tx, end domain.LastEnd) error {
	if _, err := tx.Exec(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none', finish_reason = $2 WHERE id = $1`,
		end.ChatID, end.FinishReason); err != nil {
		return err
	}

	_, err := tx.Exec(ctx, `UPDATE sessions SET active_chat_id = NULL, last_end = $2 WHERE active_chat_id = $1
		AND id = (SELECT session_id FROM chats WHERE id = $1)`, end.ChatID, end)

	return err
}

// EndWaitingPlayback ends the played chats of a session that wait for an answer. Clients
// have had their chat:end.
func EndWaitingPlayback(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID) error {
	_, err := tx.Exec(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none' WHERE session_id = $1 AND state = 'parked'`, sessionID)

	return err
}

// PausePlayback pauses the playback of a replay, as a stop does: the open chat ends
// interrupted, and the playback can be resumed. It returns false when none plays.
func PausePlayback(ctx context.Context, tx *pg.Tx, session sessions.Locked) (stopped bool, err error) {
	tag, err := tx.Exec(ctx, `
		UPDATE replays SET status = 'paused', alive_at = now() WHERE session_id = $1 AND status = 'playing'`, session.ID)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}

	if err := ClosePlayback(ctx, tx, session); err != nil {
		return false, err
	}

	return true, sessions.EmitUpdated(ctx, tx, session.ID)
}
