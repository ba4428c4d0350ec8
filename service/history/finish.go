package history

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/infra/postgres/transcript"
)

// runningOperation is an operation as its row has it.
type runningOperation struct {
	State        history.State               `db:"state"`
	Attempt      int                         `db:"attempt"`
	Kind         domain.HistoryOperationKind `db:"kind"`
	CheckpointID *domain.CheckpointID        `db:"checkpoint_id"`
	LeftID       domain.CheckpointID         `db:"left_id"`
	BranchID     domain.BranchID             `db:"branch_id"`
	Sequence     *int64                      `db:"sequence"`
	ChatID       *domain.ChatID              `db:"chat_id"`
	Deprecate    []string                    `db:"deprecate"`
	Result       *history.Moved              `db:"result"`
	Error        *string                     `db:"error"`
}

func readOperation(ctx context.Context, tx pgx.Tx, id string) (runningOperation, error) {
	rows, _ := tx.Query(ctx, `
		SELECT state, attempt, kind, checkpoint_id, left_id, branch_id, sequence, chat_id, deprecate, result, error
		FROM   history_operations WHERE id = $1 FOR UPDATE`, id)

	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[runningOperation])
}

// FinishHistory moves the session to its branch, once the files are what they
// were there: one transaction with all that follows from it. An open question is
// cancelled and its waiting run closed. Called again it returns the same answer.
// An attempt that is not the latest one gets domain.ErrFenced.
func (s *Store) FinishHistory(
	ctx context.Context,
	claimed history.Operation,
	files history.RestoredFiles,
) (history.Moved, error) {
	var out history.Moved

	err := s.outbox.Update(ctx, func(tx *pg.Tx) error {
		session, err := sessions.Lock(ctx, tx, claimed.SessionID, "")
		if err != nil {
			return err
		}

		op, err := readOperation(ctx, tx, claimed.ID)
		if err != nil {
			return err
		}

		switch history.End(op.State, op.Attempt, claimed.Attempt) {
		case history.Done:
			out = *op.Result
			return nil
		case history.Failed:
			return domain.Newf(domain.Unavailable, "history_not_changed", "%s", *op.Error)
		case history.Fenced:
			return domain.ErrFenced
		case history.Apply:
		}

		out, err = moveHistory(ctx, tx, session, op, files)
		if err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `
			UPDATE history_operations SET state = 'done', result = $2, ended_at = now() WHERE id = $1`, claimed.ID, out)

		return err
	})

	return out, pg.Fault("finish a history operation", err)
}

func moveHistory(
	ctx context.Context,
	tx *pg.Tx,
	session sessions.Locked,
	op runningOperation,
	files history.RestoredFiles,
) (history.Moved, error) {
	out := history.Moved{
		SessionID: session.ID, CheckpointID: op.CheckpointID, PreviousBranchID: session.BranchID, PreRewindID: op.LeftID, Files: files,
	}
	if out.Files.Skipped == nil {
		out.Files.Skipped = []history.SkippedFile{}
	}

	old, err := readBranch(ctx, tx, session.ID, session.BranchID)
	if err != nil {
		return out, err
	}

	now, err := readBranch(ctx, tx, session.ID, op.BranchID)
	if err != nil {
		return out, err
	}

	if op.Sequence != nil {
		if now, err = forkBranch(ctx, tx, session.ID, now, *op.Sequence, string(op.Kind)); err != nil {
			return out, err
		}
	}

	out.BranchID = now.ID
	if out.Cancelled, err = conversation.CancelWaiting(ctx, tx, session.ID, string(op.Kind)); err != nil {
		return out, err
	}

	if _, err := tx.Exec(ctx, `
		UPDATE sessions SET active_branch_id = $2, operation_id = NULL, updated_at = now(), last_end = NULL,
		       status = CASE WHEN status = 'waiting_for_input' THEN 'interrupted' ELSE status END
		WHERE  id = $1`, session.ID, now.ID); err != nil {
		return out, err
	}

	if len(op.Deprecate) > 0 {
		if _, err := tx.Exec(ctx, `
			UPDATE entries SET deprecated_on = array_append(coalesce(deprecated_on, '{}'), $3) WHERE id = ANY($2) AND session_id = $1`,
			session.ID, op.Deprecate, now.ID); err != nil {
			return out, err
		}
	}

	if out.Cancelled.Detached, err = detachTasks(ctx, tx, session.ID, now.path()); err != nil {
		return out, err
	}

	if err := describeMove(ctx, tx, session.ID, op, old, now, &out); err != nil {
		return out, err
	}

	return out, sessions.EmitMoved(ctx, tx, session.ID, &domain.HistoryMoved{
		Reason:           op.Kind,
		BranchID:         out.BranchID,
		PreviousBranchID: out.PreviousBranchID,
		HeadTurnID:       out.HeadTurnID,
		CheckpointID:     op.CheckpointID,
	})
}

// describeMove fills in what is different now.
func describeMove(
	ctx context.Context,
	tx pgx.Tx,
	sessionID domain.SessionID,
	op runningOperation,
	old, now branchRow,
	out *history.Moved,
) error {
	err := tx.QueryRow(ctx, `SELECT `+lastOnBranch("$1", "9223372036854775807"), now.ID).Scan(&out.HeadTurnID)
	if err != nil {
		return err
	}

	rows, _ := tx.Query(ctx, `SELECT e.id FROM `+transcript.OnBranch("sequence >= $2")+` ORDER BY e.sequence`,
		old.ID, history.Common(old.path(), now.path()))
	if out.RemovedTurnIDs, err = pgx.CollectRows(rows, pgx.RowTo[domain.TurnID]); err != nil {
		return err
	}

	if out.RemovedTurnIDs == nil {
		out.RemovedTurnIDs = []domain.TurnID{}
	}

	if op.Kind != domain.OperationRewind {
		return nil
	}

	rows, _ = tx.Query(ctx, `
		SELECT e.parts FROM checkpoints k JOIN entries e ON e.id = k.turn_id AND k.kind = 'user_turn'
		WHERE  k.id = $1 AND e.session_id = $2`, op.CheckpointID, sessionID)

	messages, err := pgx.CollectRows(rows, pgx.RowTo[[]domain.ContentPart])
	if len(messages) > 0 {
		out.Message = shownParts(sessionID, messages[0])
	}

	return err
}

// shownParts gives a message as a client can show it and send it again.
func shownParts(sessionID domain.SessionID, parts []domain.ContentPart) []domain.ContentPart {
	shown := make([]domain.ContentPart, len(parts))
	for i, p := range parts {
		shown[i] = p.WithAttachment(domain.AttachmentPath(sessionID, p.Attachment()))
	}

	return shown
}

// AbortHistory releases a session that could not be moved. The chat of a what-if,
// which was acknowledged, ends with the cause. An attempt that is not the latest
// one gets domain.ErrFenced.
func (s *Store) AbortHistory(ctx context.Context, claimed history.Operation, cause *domain.Error) error {
	err := s.outbox.Update(ctx, func(tx *pg.Tx) error {
		session, err := sessions.Lock(ctx, tx, claimed.SessionID, "")
		if err != nil {
			return err
		}

		op, err := readOperation(ctx, tx, claimed.ID)
		if err != nil {
			return err
		}

		switch history.End(op.State, op.Attempt, claimed.Attempt) {
		case history.Done, history.Failed:
			return nil
		case history.Fenced:
			return domain.ErrFenced
		case history.Apply:
		}

		if _, err := tx.Exec(ctx, `
			UPDATE history_operations SET state = 'failed', error_kind = $2, error_code = $3, error = $4, ended_at = now() WHERE id = $1`,
			claimed.ID, cause.Kind, cause.Code, cause.Message); err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `UPDATE sessions SET operation_id = NULL, updated_at = now() WHERE id = $1`, session.ID); err != nil {
			return err
		}

		if op.ChatID != nil {
			if err := conversation.FailQueued(ctx, tx, session.ID, *op.ChatID, cause.Code, cause.Message); err != nil {
				return err
			}
		}

		return sessions.EmitUpdated(ctx, tx, session.ID)
	})

	return pg.Fault("abort a history operation", err)
}
