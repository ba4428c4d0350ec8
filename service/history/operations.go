package history

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/pg"
)

const operationColumns = `o.id, o.session_id, s.owner_id, s.sandbox_uid, o.kind, o.state, o.left_id, coalesce(o.chat_id, ''), o.attempt`

func scanOperation(row pgx.CollectableRow) (op history.Operation, err error) {
	return op, row.Scan(&op.ID, &op.SessionID, &op.OwnerID, &op.SandboxUID, &op.Kind, &op.State, &op.LeftID, &op.ChatID, &op.Attempt)
}

// AttemptHistory starts another attempt at a running operation. Attempts before
// it can no longer write. An operation that is over is returned as it is; one of
// a deleted session is reported as not found.
func (s *Store) AttemptHistory(ctx context.Context, operationID string) (history.Operation, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		UPDATE history_operations o SET attempt = o.attempt + CASE WHEN o.state = 'running' THEN 1 ELSE 0 END
		FROM   sessions s WHERE o.id = $1 AND s.id = o.session_id AND s.deleted_at IS NULL
		RETURNING `+operationColumns, operationID)

	op, err := pgx.CollectExactlyOneRow(rows, scanOperation)
	if errors.Is(err, pgx.ErrNoRows) {
		return op, operationNotFound(operationID)
	}

	return op, pg.Fault("begin an attempt at a history operation", err)
}

func operationNotFound(id string) error {
	return domain.Newf(domain.NotFound, "operation_not_found", "history operation %s does not exist", id)
}

// CheckHistory returns domain.ErrFenced unless the attempt is the latest one at a
// running operation.
func (s *Store) CheckHistory(ctx context.Context, op history.Operation) error {
	var current bool

	err := s.db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM history_operations WHERE id = $1 AND attempt = $2
		    AND state = 'running')`, op.ID, op.Attempt).Scan(&current)
	if err == nil && !current {
		return domain.ErrFenced
	}

	return pg.Fault("check the attempt at a history operation", err)
}

// HistoryResult returns what an operation came to, or the error with which it
// failed. Done is false while it runs.
func (s *Store) HistoryResult(ctx context.Context, operationID string) (moved history.Moved, done bool, err error) {
	var (
		state  history.State
		result *history.Moved
	)

	failed := &domain.Error{}

	err = s.db.Pool.QueryRow(ctx, `
		SELECT state, result, coalesce(error_kind, 'unavailable'), coalesce(error_code, 'history_not_changed'), coalesce(error, '')
		FROM   history_operations WHERE id = $1`, operationID).Scan(&state, &result, &failed.Kind, &failed.Code, &failed.Message)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return moved, false, operationNotFound(operationID)
	case err != nil:
		return moved, false, pg.Fault("read the result of a history operation", err)
	case state == history.StateDone:
		return *result, true, nil
	case state == history.StateFailed:
		return moved, true, failed
	}

	return moved, false, nil
}

// LostHistory returns running operations that were claimed longer than age ago, at most
// limit, in the order of their ids and after one: those whose workflow may be lost.
func (s *Store) LostHistory(ctx context.Context, age time.Duration, after string, limit int) ([]history.Operation, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+operationColumns+` FROM history_operations o JOIN sessions s ON s.id = o.session_id
		WHERE  o.state = 'running' AND o.id > $2 AND o.created_at < now() - $1::interval AND s.deleted_at IS NULL
		ORDER  BY o.id LIMIT $3`, age, after, limit)
	list, err := pgx.CollectRows(rows, scanOperation)

	return list, pg.Fault("list history operations that were not finished", err)
}

// RunningHistory returns the operations on a session's history that are not over,
// also when the session was deleted.
func (s *Store) RunningHistory(ctx context.Context, sessionID domain.SessionID) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT id FROM history_operations WHERE session_id = $1 AND state = 'running' ORDER BY id`, sessionID)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return list, pg.Fault("list the running history operations of a session", err)
}

// EndHistory fails the running operations of a deleted session: their attempts can no
// longer write, and callers that wait are answered.
func (s *Store) EndHistory(ctx context.Context, sessionID domain.SessionID) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE history_operations o
		SET    state = 'failed', error_kind = 'not_found', error_code = $2, error = 'the session was deleted', ended_at = now()
		FROM   sessions s
		WHERE  o.session_id = $1 AND o.state = 'running' AND s.id = o.session_id AND s.deleted_at IS NOT NULL`,
		sessionID, domain.CodeSessionNotFound)

	return pg.Fault("end the history operations of a deleted session", err)
}

// PruneHistoryOperations deletes rewinds and the like that ended longer than age ago, at
// most limit of them in one transaction, and returns how many it deleted. It looks among
// the oldest ones, so that it reads nothing else.
func (s *Store) PruneHistoryOperations(ctx context.Context, age time.Duration, limit int) (int64, error) {
	return s.db.Prune(ctx, "forget old history operations", `
		DELETE FROM history_operations WHERE id IN (
			SELECT id FROM (SELECT id, state, ended_at FROM history_operations ORDER BY id LIMIT $2) oldest
			WHERE state <> 'running' AND ended_at < now() - $1::interval)`, age, limit)
}
