package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// LockSend starts the order of the two statements that decide about the message of a run: its
// Send, and its cancellation.
const LockSend = `SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))`

// IsSendCancelled reads whether the message of a run was cancelled, under LockSend.
const IsSendCancelled = `SELECT EXISTS (SELECT 1 FROM cancelled_sends WHERE session_id = $1 AND client_message_id = $2)`

// CancelSend returns the chat of a run's message that an attempt has sent and not recorded. A
// message that was not sent is refused from now on.
func CancelSend(
	ctx context.Context,
	tx pgx.Tx,
	sessionID domain.SessionID,
	clientMessageID string,
) (chatID domain.ChatID, sent bool, err error) {
	if _, err := tx.Exec(ctx, LockSend, sessionID, clientMessageID); err != nil {
		return "", false, err
	}

	err = tx.QueryRow(ctx, `SELECT chat_id FROM inbox WHERE session_id = $1 AND client_message_id = $2`, sessionID, clientMessageID).
		Scan(&chatID)
	if !errors.Is(err, pgx.ErrNoRows) {
		return chatID, err == nil, err
	}

	var batch pgx.Batch
	batch.Queue(`DELETE FROM cancelled_sends WHERE created_at < now() - interval '30 days'`)
	batch.Queue(`INSERT INTO cancelled_sends VALUES ($1, $2) ON CONFLICT DO NOTHING`, sessionID, clientMessageID)

	return "", false, tx.SendBatch(ctx, &batch).Close()
}
