package conversation

import (
	"context"
	"fmt"
	"time"

	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// retryTolerance is how much too early a model call may be made again: the clocks
// of two machines differ.
const retryTolerance = 250 * time.Millisecond

// faultColumns give the model faults of the loop l, or of the chat c when there
// is none.
const faultColumns = `
	CASE WHEN l.id IS NULL THEN c.model_faults ELSE l.model_faults END,
	CASE WHEN l.id IS NULL THEN c.model_faults_paid ELSE l.model_faults_paid END,
	coalesce(now() - CASE WHEN l.id IS NULL THEN c.model_faults_since ELSE l.model_faults_since END, interval '0'),
	coalesce(CASE WHEN l.id IS NULL THEN c.model_retry_at ELSE l.model_retry_at END - now(), interval '0')`

// faultsTable returns the table and the id of the row that keeps a loop's faults.
func faultsTable(key domain.TurnKey) (table, id string) {
	if key.LoopID == domain.RootLoop {
		return "chats", string(key.ChatID)
	}

	return "loops", key.LoopID
}

// ReleaseTurn leaves a turn that has shown nothing to the next try, and says why
// in a retry patch.
func (s *Store) ReleaseTurn(ctx context.Context, key domain.TurnKey, entryID domain.TurnID, attempt int, retry domain.Retry) error {
	err := s.Update(ctx, func(tx *pg.Tx) error {
		if err := releaseTurn(ctx, tx, key, entryID, attempt); err != nil {
			return err
		}

		return keepRetry(ctx, tx, key, entryID, retry)
	})

	return pg.Fault("release turn", err)
}

// HoldTurn leaves a turn that has shown nothing to the next call, which is made as soon as
// what it waits for is there.
func (s *Store) HoldTurn(ctx context.Context, key domain.TurnKey, entryID domain.TurnID, attempt int) error {
	err := s.Update(ctx, func(tx *pg.Tx) error { return releaseTurn(ctx, tx, key, entryID, attempt) })
	return pg.Fault("hold turn", err)
}

func releaseTurn(ctx context.Context, tx *pg.Tx, key domain.TurnKey, entryID domain.TurnID, attempt int) error {
	if _, err := tx.Exec(ctx, `SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE`, key.SessionID); err != nil {
		return err
	}

	tag, err := tx.Exec(ctx, `
		UPDATE entries SET attempt = $3, max_attempt = greatest(max_attempt, $2)
		WHERE  id = $1 AND attempt = $2 AND status = 'streaming'`, entryID, attempt, released)
	if err != nil {
		return err
	}

	if tag.RowsAffected() == 0 {
		return domain.ErrFenced
	}

	return nil
}

// keepRetry counts a fault of the loop and returns when its call is made again.
func keepRetry(ctx context.Context, tx *pg.Tx, key domain.TurnKey, entryID domain.TurnID, retry domain.Retry) error {
	if retry.Fault {
		table, id := faultsTable(key)
		if _, err := tx.Exec(ctx, `
			UPDATE `+table+` SET model_faults = model_faults + 1, model_faults_since = coalesce(model_faults_since, now()),
			       model_retry_at = now() + $2::interval, model_faults_paid = model_faults_paid + $3
			WHERE  id = $1`, id, retry.Wait, retry.Paid); err != nil {
			return fmt.Errorf("count model fault: %w", err)
		}
	}

	if err := tx.Emit(key.SessionID, key.ChatID, domain.EventTurnPatch, domain.RetryPatch{
		TurnID: entryID, PatchType: domain.PatchRetry, Attempt: retry.Attempt, Reason: retry.Reason,
		NextAttemptAt: time.Now().UTC().Add(retry.Wait),
	}); err != nil {
		return err
	}

	if key.LoopID != domain.RootLoop {
		return nil
	}

	return WaitForModel(ctx, tx, key.SessionID, key.ChatID, retry.Waiting, retry.Wait)
}

// WaitForModel records that a chat waits for its model, and emits session:updated when it
// waited for something else before.
func WaitForModel(
	ctx context.Context,
	tx *pg.Tx,
	sessionID domain.SessionID,
	chatID domain.ChatID,
	reason domain.WaitingReason,
	wait time.Duration,
) error {
	var changed bool

	err := tx.QueryRow(ctx, `
		UPDATE chats c SET waiting_reason = $2, waiting_until = now() + $3::interval
		FROM   (SELECT id, waiting_reason FROM chats WHERE id = $1) before
		WHERE  c.id = before.id RETURNING before.waiting_reason <> $2`, chatID, reason, wait).Scan(&changed)
	if err != nil || !changed {
		return err
	}

	return sessions.EmitUpdated(ctx, tx, sessionID)
}

// callResumes reports that a chat which waited for its model calls it again.
func callResumes(ctx context.Context, tx *pg.Tx, key domain.TurnKey, found foundTurn) error {
	if key.LoopID != domain.RootLoop || found.waiting != domain.WaitingModelDown && found.waiting != domain.WaitingRateLimit {
		return nil
	}

	if _, err := tx.Exec(ctx, `UPDATE chats SET waiting_reason = 'model', waiting_until = NULL WHERE id = $1`, key.ChatID); err != nil {
		return err
	}

	return sessions.EmitUpdated(ctx, tx, key.SessionID)
}
