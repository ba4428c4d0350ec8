package sessions

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/chat"
	"everloop/infra/postgres/pg"
)

// Locked is a session whose row the transaction has locked: what decisions about its
// chats and its history are made on. The lock orders sends, stops, answers, the ends of
// chats and moves of the history.
type Locked struct {
	ID           domain.SessionID `db:"id"`
	OwnerID      string           `db:"owner_id"`
	Intent       string           `db:"intent"`
	Status       string           `db:"status"`
	Model        *string          `db:"model"`
	Mode         string           `db:"mode"`
	BranchID     domain.BranchID  `db:"active_branch_id"`
	ActiveChatID *domain.ChatID   `db:"active_chat_id"`
	InitTaskID   *string          `db:"init_task_id"`
	FromMessage  bool             `db:"intent_from_message"`
	OperationID  *string          `db:"operation_id"` // what changes its history now: no chat starts in the meantime
	Replaying    bool             `db:"replaying"`    // it takes no messages, and no run but its replay's
	OwnerClosed  bool             `db:"owner_closed"` // its owner's account is closed: no chat starts
}

// lockedColumns give a Locked of the row of sessions.
const lockedColumns = `
	id, owner_id, intent, status, model, mode, active_branch_id, active_chat_id, init_task_id, intent_from_message, operation_id,
	` + isReplaying + ` AS replaying, EXISTS (SELECT 1 FROM users u WHERE u.id = sessions.owner_id AND u.closed) AS owner_closed`

// Lock locks the row of a session until the end of the transaction and reads it. An empty
// owner means that the caller was authorised otherwise.
func Lock(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, ownerID string) (Locked, error) {
	rows, _ := tx.Query(ctx, lockStatement, sessionID, ownerID)
	return lockedOf(rows, sessionID)
}

const lockStatement = `
	SELECT ` + lockedColumns + `
	FROM   sessions
	WHERE  id = $1 AND ($2 = '' OR owner_id = $2) AND deleted_at IS NULL
	FOR UPDATE`

func lockedOf(rows pgx.Rows, sessionID domain.SessionID) (Locked, error) {
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Locked])
	if errors.Is(err, pgx.ErrNoRows) {
		return s, domain.SessionNotFound(sessionID)
	}

	return s, err
}

// QueueLock adds Lock to a batch. Statements behind it read what is there under the lock.
func QueueLock(batch *pgx.Batch, sessionID domain.SessionID, ownerID string, into *Locked) {
	batch.Queue(lockStatement, sessionID, ownerID).Query(func(rows pgx.Rows) (err error) {
		*into, err = lockedOf(rows, sessionID)
		return err
	})
}

// LockOfChat is Lock for the session of a chat, deleted or not. Without such a chat the
// error is pgx.ErrNoRows.
func LockOfChat(ctx context.Context, tx pgx.Tx, chatID domain.ChatID) (Locked, error) {
	rows, _ := tx.Query(ctx, `
		SELECT `+lockedColumns+`
		FROM   sessions WHERE id = (SELECT session_id FROM chats WHERE id = $1) FOR UPDATE`, chatID)

	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Locked])
}

// Chats returns the state on which the session's chats are decided, without its queue
// and its questions.
func (s Locked) Chats() chat.Session {
	return chat.Session{Replaying: s.Replaying, Moving: s.OperationID != nil, Active: s.ActiveChatID != nil}
}

// isReplaying is a condition on the row of sessions: its replay is not over, so
// that it takes no messages.
const isReplaying = `
	EXISTS (SELECT 1 FROM replays r WHERE r.session_id = sessions.id AND (r.status IN ('playing', 'paused') OR r.files_owed))`

// Free returns an error while a replay or an operation on the history has the session, so
// that its files may be replaced. A session that does not exist is not_found.
func (db *Base) Free(ctx context.Context, sessionID domain.SessionID) error {
	rows, _ := db.Pool.Query(ctx, `
		SELECT operation_id IS NOT NULL AS moving, `+isReplaying+` AS replaying
		FROM   sessions WHERE id = $1 AND deleted_at IS NULL`, sessionID)

	state, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[chat.Session])
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.SessionNotFound(sessionID)
	}

	if err != nil {
		return pg.Fault("look for an operation on a session", err)
	}

	return state.Free()
}
