package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// historyMoved tells, with session:updated, that the active branch is another one:
// what clients hold of messages, history, checkpoints and files is old.
type historyMoved struct {
	Reason           domain.HistoryOperationKind `json:"reason"`
	BranchID         string                      `json:"branch_id"`
	PreviousBranchID string                      `json:"previous_branch_id"`
	HeadTurnID       *string                     `json:"head_turn_id"`
	CheckpointID     *string                     `json:"checkpoint_id"`
}

// runningOperation is an operation as its row has it.
type runningOperation struct {
	State        string                      `db:"state"`
	Kind         domain.HistoryOperationKind `db:"kind"`
	CheckpointID *string                     `db:"checkpoint_id"`
	LeftID       string                      `db:"left_id"`
	BranchID     string                      `db:"branch_id"`
	Sequence     *int64                      `db:"sequence"`
	ChatID       *string                     `db:"chat_id"`
	Deprecate    []string                    `db:"deprecate"`
	Result       *domain.MovedHistory        `db:"result"`
	Error        *string                     `db:"error"`
}

func readOperation(ctx context.Context, tx pgx.Tx, id string) (runningOperation, error) {
	rows, _ := tx.Query(ctx, `
		SELECT state, kind, checkpoint_id, left_id, branch_id, sequence, chat_id, deprecate, result, error
		FROM   history_operations WHERE id = $1 FOR UPDATE`, id)
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[runningOperation])
}

// FinishHistory moves the session to its branch, once the files are what they
// were there: one transaction with all that follows from it. An open question is
// cancelled and its waiting run closed. Called again it gives the same answer.
func (j *Journal) FinishHistory(ctx context.Context, claimed domain.HistoryOperation, files domain.RestoredFiles) (domain.MovedHistory, error) {
	var out domain.MovedHistory
	err := j.Commit(ctx, func(c *Change) error {
		session, err := lockSession(ctx, c, claimed.SessionID, "")
		if err != nil {
			return err
		}
		op, err := readOperation(ctx, c, claimed.ID)
		switch {
		case err != nil:
			return err
		case op.State == "done":
			out = *op.Result
			return nil
		case op.State != "running":
			return domain.Newf(domain.Unavailable, "history_not_changed", "%s", *op.Error)
		}
		out, err = moveHistory(ctx, c, session, op, files)
		if err != nil {
			return err
		}
		_, err = c.Exec(ctx, `
			UPDATE history_operations SET state = 'done', result = $2, ended_at = now(), lease_owner = NULL, lease_until = NULL
			WHERE  id = $1`, claimed.ID, out)
		return err
	})
	return out, fault("finish a history operation", err)
}

func moveHistory(ctx context.Context, c *Change, session lockedSession, op runningOperation, files domain.RestoredFiles) (domain.MovedHistory, error) {
	out := domain.MovedHistory{
		SessionID: session.ID, CheckpointID: op.CheckpointID, PreviousBranchID: session.BranchID, PreRewindID: op.LeftID, Files: files,
	}
	if out.Files.Skipped == nil {
		out.Files.Skipped = []domain.SkippedFile{}
	}
	old, err := readBranch(ctx, c, session.ID, session.BranchID)
	if err != nil {
		return out, err
	}
	now, err := readBranch(ctx, c, session.ID, op.BranchID)
	if err != nil {
		return out, err
	}
	if op.Sequence != nil {
		if now, err = forkBranch(ctx, c, session.ID, now, *op.Sequence, string(op.Kind)); err != nil {
			return out, err
		}
	}
	out.BranchID = now.ID
	if out.Cancelled, err = cancelWaiting(ctx, c, session, string(op.Kind)); err != nil {
		return out, err
	}
	if _, err := c.Exec(ctx, `
		UPDATE sessions SET active_branch_id = $2, operation_id = NULL, updated_at = now(),
		       status = CASE WHEN status = 'waiting_for_input' THEN 'interrupted' ELSE status END
		WHERE  id = $1`, session.ID, now.ID); err != nil {
		return out, err
	}
	if len(op.Deprecate) > 0 {
		if _, err := c.Exec(ctx, `UPDATE entries SET deprecated = true WHERE id = ANY($2) AND session_id = $1`, session.ID, op.Deprecate); err != nil {
			return out, err
		}
	}
	if out.Cancelled.Detached, err = detachTasks(ctx, c, session.ID, now); err != nil {
		return out, err
	}
	if err := describeMove(ctx, c, session.ID, op, old, now, &out); err != nil {
		return out, err
	}
	return out, emitMovedSession(ctx, c, session.ID, &historyMoved{
		Reason: op.Kind, BranchID: out.BranchID, PreviousBranchID: out.PreviousBranchID, HeadTurnID: out.HeadTurnID, CheckpointID: op.CheckpointID,
	})
}

// cancelWaiting takes open questions away and closes the chats that wait for
// their answers.
func cancelWaiting(ctx context.Context, c *Change, session lockedSession, by string) (domain.Cancelled, error) {
	var out domain.Cancelled
	asked, err := openQuestions(ctx, c, session.ID)
	if err != nil {
		return out, err
	}
	if out.Questions = len(asked); out.Questions > 0 {
		if err := cancelQuestions(ctx, c, session.ID, asked, by); err != nil {
			return out, err
		}
	}
	err = c.QueryRow(ctx, `SELECT run_id FROM chats WHERE session_id = $1 AND state = 'parked' ORDER BY id LIMIT 1`, session.ID).Scan(&out.RunID)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	return out, closeParkedChats(ctx, c, session.ID)
}

// detachTasks marks the background tasks whose tool call the branch does not
// show, and unmarks the others. They all go on.
func detachTasks(ctx context.Context, c *Change, sessionID string, now branchRow) (detached int, err error) {
	rows, _ := c.Query(ctx, `
		SELECT b.id, b.detached, e.branch_id, e.sequence
		FROM   background_tasks b JOIN tool_calls t ON t.id = b.tool_call_id JOIN entries e ON e.id = t.entry_id
		WHERE  b.session_id = $1
		AND    (b.status = 'running' OR NOT EXISTS (SELECT 1 FROM entries n WHERE n.id = 'note_' || b.id))`, sessionID)
	type task struct {
		id, branch string
		detached   bool
		sequence   int64
	}
	tasks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (task, error) {
		var t task
		return t, row.Scan(&t.id, &t.detached, &t.branch, &t.sequence)
	})
	if err != nil {
		return 0, fmt.Errorf("look at background tasks: %w", err)
	}
	path := now.path()
	for _, t := range tasks {
		gone := !shows(path, t.branch, t.sequence)
		if gone {
			detached++
		}
		if gone == t.detached {
			continue
		}
		changed, err := taskRow(ctx, c, `UPDATE background_tasks b SET detached = $2 WHERE b.id = $1 RETURNING `+taskColumns, t.id, gone)
		if err != nil {
			return 0, err
		}
		if err := emitTask(c, changed); err != nil {
			return 0, err
		}
	}
	return detached, nil
}

// describeMove fills in what is different now.
func describeMove(ctx context.Context, tx pgx.Tx, sessionID string, op runningOperation, old, now branchRow, out *domain.MovedHistory) error {
	err := tx.QueryRow(ctx, `SELECT `+lastOnBranch("$1", "9223372036854775807"), now.ID).Scan(&out.HeadTurnID)
	if err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, `SELECT e.id FROM `+onBranch("sequence >= $2")+` ORDER BY e.sequence`, old.ID, common(old.path(), now.path()))
	if out.RemovedTurnIDs, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	if out.RemovedTurnIDs == nil {
		out.RemovedTurnIDs = []string{}
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
func shownParts(sessionID string, parts []domain.ContentPart) []domain.ContentPart {
	shown := make([]domain.ContentPart, len(parts))
	for i, p := range parts {
		if p.ImageURL != nil {
			p.ImageURL = &domain.ImageURL{URL: domain.AttachmentPath(sessionID, p.ImageURL.URL)}
		}
		shown[i] = p
	}
	return shown
}

// AbortHistory gives a session free that could not be moved. The chat of a
// what-if, which was promised, ends with the cause.
func (j *Journal) AbortHistory(ctx context.Context, claimed domain.HistoryOperation, code, message string) error {
	err := j.Commit(ctx, func(c *Change) error {
		session, err := lockSession(ctx, c, claimed.SessionID, "")
		if err != nil {
			return err
		}
		op, err := readOperation(ctx, c, claimed.ID)
		if err != nil || op.State != "running" {
			return err
		}
		if _, err := c.Exec(ctx, `
			UPDATE history_operations SET state = 'failed', error = $2, ended_at = now(), lease_owner = NULL, lease_until = NULL
			WHERE  id = $1`, claimed.ID, message); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, `UPDATE sessions SET operation_id = NULL, updated_at = now() WHERE id = $1`, session.ID); err != nil {
			return err
		}
		if op.ChatID != nil {
			if err := failPromised(ctx, c, session.ID, *op.ChatID, code, message); err != nil {
				return err
			}
		}
		return emitSession(ctx, c, session.ID)
	})
	return fault("give up a history operation", err)
}

// failPromised ends a chat that was acknowledged and cannot be run.
func failPromised(ctx context.Context, c *Change, sessionID, chatID, code, message string) error {
	tag, err := c.Exec(ctx, `UPDATE inbox SET state = 'cancelled' WHERE chat_id = $1 AND state = 'queued'`, chatID)
	if err != nil || tag.RowsAffected() == 0 {
		return err // a stop of the queue was quicker
	}
	if _, err := c.Exec(ctx, `
		UPDATE chats SET state = 'ended', ended_at = now(), waiting_reason = 'none', finish_reason = 'failed', error_code = $2, error_message = $3
		WHERE  id = $1`, chatID, code, message); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `UPDATE sessions SET status = 'failed' WHERE id = $1`, sessionID); err != nil {
		return err
	}
	return c.Emit(sessionID, chatID, domain.EventChatEnd, domain.ChatEnded{
		Status: domain.FinishFailed.Status(), FinishReason: domain.FinishFailed,
		Error: &domain.ChatError{Code: code, Message: message, Retryable: true},
	})
}
