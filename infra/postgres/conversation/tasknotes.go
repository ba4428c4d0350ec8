package conversation

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// joinTaskNotes adds to the prompt the session's background tasks that have
// ended since the last note: each becomes a system turn of the chat, before
// the next model call of its main loop. The turn's id comes from the task, so
// that nothing is noted twice. The caller holds the session's lock.
func joinTaskNotes(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, branchID domain.BranchID, chatID domain.ChatID) error {
	rows, _ := tx.Query(ctx, `
		SELECT 'note_' || b.id, b.id, b.title, b.status, b.exit_code, coalesce(b.reason, ''), b.output_path,
		       coalesce((SELECT l.result FROM loops l WHERE l.task_id = b.id AND l.background), '')
		FROM   background_tasks b
		WHERE  b.session_id = $1 AND b.status <> 'running' AND NOT b.detached
		AND    NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = 'note_' || b.id)
		ORDER  BY b.finished_at, b.id`, sessionID)

	type note struct {
		turnID domain.TurnID
		text   string
	}

	notes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (note, error) {
		var (
			turnID                          domain.TurnID
			id, title, reason, path, result string
			status                          domain.TaskStatus
			exit                            *int
		)

		err := row.Scan(&turnID, &id, &title, &status, &exit, &reason, &path, &result)

		text := taskNote(id, title, status, exit, reason, path)
		if result != "" {
			text += " Its result:\n\n" + result
		}

		return note{turnID, text}, err
	})
	if err != nil {
		return fmt.Errorf("read ended background tasks: %w", err)
	}

	for _, n := range notes {
		if err := addSystemTurn(ctx, tx, sessionID, branchID, chatID, n.turnID, n.text); err != nil {
			return err
		}
	}

	return nil
}

// taskNote says in words how a background task ended.
func taskNote(id, title string, status domain.TaskStatus, exit *int, reason, path string) string {
	text := fmt.Sprintf("Background task %s (%s) has ended: %s", id, title, status)
	if exit != nil {
		text += fmt.Sprintf(", exit code %d", *exit)
	}

	if reason != "" {
		text += ", " + reason
	}

	if text += "."; path != "" {
		text += " Its output is in " + path + "."
	}

	return text
}

// addSystemTurn writes what the service has to say to the model as a finished
// turn and emits it.
func addSystemTurn(
	ctx context.Context,
	tx *pg.Tx,
	sessionID domain.SessionID,
	branchID domain.BranchID,
	chatID domain.ChatID,
	turnID domain.TurnID,
	text string,
) error {
	sequence, err := NextSequence(ctx, tx, branchID)
	if err != nil {
		return err
	}

	start := domain.TurnStarted{
		TurnID: turnID, Sequence: sequence, Role: domain.RoleSystem, Status: domain.TurnCompleted,
		LoopID: domain.RootLoop, Kind: domain.KindMessage, Blocks: []domain.Block{{Type: domain.BlockSystemNote, Content: text}},
	}

	err = tx.QueryRow(ctx, `
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, role, status, blocks, parts, ended_at)
		VALUES ($2, $3, $1, $4, `+previousEntry+`, $5, 'system', 'completed', $6, $7, now())
		RETURNING started_at`, branchID, turnID, sessionID, sequence, chatID, start.Blocks,
		[]domain.ContentPart{{Type: "text", Text: text}}).Scan(&start.StartedAt)
	if err != nil {
		return fmt.Errorf("write system turn: %w", err)
	}

	if err := tx.Emit(sessionID, chatID, domain.EventTurnStart, start); err != nil {
		return err
	}

	return tx.Emit(sessionID, chatID, domain.EventTurnEnd, domain.TurnEnded{TurnID: turnID, Status: domain.TurnCompleted})
}
