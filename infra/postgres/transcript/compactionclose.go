package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// compacting is a compaction that is about to end.
type compacting struct {
	BranchID domain.BranchID          `db:"branch_id"`
	LoopID   string                   `db:"loop_id"`
	ChatID   *domain.ChatID           `db:"chat_id"`
	Trigger  domain.CompactionTrigger `db:"trigger"`
	State    domain.CompactionStatus  `db:"state"`
	Result   domain.CompactionResult  `db:"result"`
	Done     bool                     `db:"exhausted"`
}

// CloseCompaction ends a compaction once: with its entry on the
// branch and its event, or skipped without an entry. Exhausted says
// that it is the second of a chat's in a row that did not bring the context below
// its threshold.
func (s *Store) CloseCompaction(
	ctx context.Context,
	done domain.ClosingCompaction,
) (result domain.CompactionResult, exhausted bool, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		session, err := sessions.Lock(ctx, tx, done.SessionID, "")
		if err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			SELECT branch_id, loop_id, chat_id, trigger, state, coalesce(result, '{}') AS result, exhausted
			FROM   compactions WHERE id = $1 FOR UPDATE`, done.ID)

		row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[compacting])
		if err != nil {
			return err
		}

		if row.State != domain.CompactionRunning {
			result, exhausted = row.Result, row.Done
			return nil
		}

		if done, err = stillWanted(ctx, tx, session, row, done); err != nil {
			return err
		}

		result = resultOf(done)
		if exhausted, err = endCompaction(ctx, tx, row, done, result); err != nil {
			return err
		}

		if done.Status == domain.CompactionSkipped {
			return emitSkipped(tx, row, done)
		}

		return emitCompaction(ctx, tx, row, done, result)
	})
	if errors.Is(err, pgx.ErrNoRows) || domain.HasCode(err, domain.CodeSessionNotFound) {
		return domain.CompactionResult{
			CompactionID: done.ID,
			Status:       domain.CompactionSkipped,
			Reason:       "the session was deleted",
		}, false, nil
	}

	return result, exhausted, err
}

// stillWanted turns a compaction into a skipped one when the history that it
// read is no longer the one that counts.
func stillWanted(
	ctx context.Context,
	tx *pg.Tx,
	session sessions.Locked,
	row compacting,
	done domain.ClosingCompaction,
) (domain.ClosingCompaction, error) {
	if done.Status == domain.CompactionSkipped {
		return done, nil
	}

	skip := func(why string) domain.ClosingCompaction {
		done.Status, done.Reason, done.Below, done.After = domain.CompactionSkipped, why, nil, done.Work.Before
		return done
	}
	if row.BranchID != session.BranchID && row.LoopID == domain.RootLoop {
		return skip("the conversation has moved to another branch"), nil
	}

	if row.ChatID != nil {
		var over bool
		if err := tx.QueryRow(ctx, `
			SELECT NOT `+conversation.Alive+` FROM chats c LEFT JOIN loops l ON l.id = $2
				WHERE c.id = $1`, *row.ChatID, row.LoopID).Scan(&over); err != nil {
			return done, err
		}

		if over {
			return skip("its chat has ended or was stopped"), nil
		}
	}

	var newest string

	err := tx.QueryRow(ctx, `WITH `+lastCompaction(ThisBranch)+` SELECT id FROM last`, row.BranchID, row.LoopID, int64(1)<<62).Scan(&newest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return done, err
	}

	if newest != done.Work.BaseID && done.Status == domain.CompactionCompleted {
		return skip("another compaction was quicker"), nil
	}

	return done, nil
}

func resultOf(done domain.ClosingCompaction) domain.CompactionResult {
	r := domain.CompactionResult{
		CompactionID: done.ID, Status: done.Status, Reason: done.Reason,
		TokensBefore: done.Work.Before, TokensAfter: done.Work.Before, DurationMS: done.Duration.Milliseconds(),
	}
	if done.Status != domain.CompactionCompleted {
		return r
	}

	r.ArchivedCount, r.TokensAfter, r.SummaryPreview = done.Work.Count, done.After, preview(done.Work.Summary)
	if r.TokensBefore > r.TokensAfter {
		r.SavedRatio = float64(r.TokensBefore-r.TokensAfter) / float64(r.TokensBefore)
	}

	return r
}

// preview returns the beginning of a summary.
func preview(summary string) string {
	const most = 280
	if runes := []rune(summary); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}

	return summary
}

// endCompaction keeps the result and counts what it cost to its chat.
func endCompaction(
	ctx context.Context,
	tx *pg.Tx,
	row compacting,
	done domain.ClosingCompaction,
	result domain.CompactionResult,
) (exhausted bool, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE compactions c SET state = @state, result = @result, below = @below, work = @work, ended_at = now(),
		       exhausted = @below IS FALSE AND c.trigger <> 'manual' AND coalesce((
				SELECT p.below IS FALSE AND p.trigger <> 'manual' FROM compactions p
				WHERE  p.session_id = c.session_id AND p.loop_id = c.loop_id AND p.branch_id = c.branch_id AND p.id <> c.id
				    AND p.below IS NOT NULL
				ORDER  BY p.id DESC LIMIT 1), false)
		WHERE  id = @id RETURNING exhausted`,
		pgx.NamedArgs{"id": done.ID, "state": done.Status, "result": result, "below": done.Below, "work": done.Work}).Scan(&exhausted)
	if err != nil {
		return exhausted, err
	}

	args := sessions.UsageArgs(done.Model, done.Work.Usage)
	args["session"] = done.SessionID

	var batch pgx.Batch
	batch.Queue(`UPDATE sessions SET `+sessions.AddToSession+` WHERE id = @session`, args)
	batch.Queue(sessions.CountUsage(`SELECT id, owner_id FROM sessions WHERE id = @session`), args)

	if row.ChatID != nil {
		args["chat"] = *row.ChatID
		batch.Queue(`UPDATE chats SET `+sessions.AddToChat+` WHERE id = @chat`, args)
	}

	return exhausted, tx.SendBatch(ctx, &batch).Close()
}

// emitSkipped ends the wait of a client that asked for a compaction. Those that a chat
// needs are seen by its next model call.
func emitSkipped(tx *pg.Tx, row compacting, done domain.ClosingCompaction) error {
	if row.Trigger != domain.CompactManual {
		return nil
	}

	return tx.Emit(done.SessionID, "", domain.EventCompactionSkip, domain.SkippedCompaction{CompactionID: done.ID, Reason: done.Reason})
}

// compactionEntry is what the entry of a compaction holds in addition to a turn's
// fields: what clients are shown, and where the transcript continues.
type compactionEntry struct {
	CompactionID   string                   `json:"compaction_id"`
	SummaryPreview string                   `json:"summary_preview"`
	SummaryFull    string                   `json:"summary_full"`
	ArchivedCount  int                      `json:"archived_count"`
	TokensBefore   int64                    `json:"tokens_before"`
	TokensAfter    int64                    `json:"tokens_after"`
	SavedRatio     float64                  `json:"saved_ratio"`
	Trigger        domain.CompactionTrigger `json:"trigger"`
	KeptFrom       int64                    `json:"kept_from"`
	Pinned         *int64                   `json:"pinned,omitempty"`
}

// emitCompaction puts the compaction on its branch, where the messages list and
// the loop's next model call find it, and emits it.
func emitCompaction(ctx context.Context, tx *pg.Tx, row compacting, done domain.ClosingCompaction, result domain.CompactionResult) error {
	entry, err := json.Marshal(compactionEntry{
		CompactionID: done.ID, SummaryPreview: result.SummaryPreview, SummaryFull: summaryOf(done), ArchivedCount: result.ArchivedCount,
		TokensBefore: result.TokensBefore, TokensAfter: result.TokensAfter, SavedRatio: result.SavedRatio, Trigger: row.Trigger,
		KeptFrom: done.Work.KeptFrom, Pinned: done.Work.Pinned,
	})
	if err != nil {
		return err
	}

	status := domain.TurnCompleted
	if done.Status == domain.CompactionFailed {
		status = domain.TurnFailed
	}

	chat, err := chatOfEntry(ctx, tx, row, done)
	if err != nil {
		return err
	}

	sequence, err := conversation.NextSequence(ctx, tx, row.BranchID)
	if err != nil {
		return err
	}

	rows, _ := tx.Query(
		ctx,
		`
		WITH e AS (
			INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, loop_id, kind, role, status, model,
			                     input_tokens, output_tokens, duration_ms, context_window, failure_reason, compaction,
			                     started_at, ended_at, parent_fork_tool_call_id, cache_read_tokens, cache_write_tokens, cost_nano)
			SELECT $2, $3, $1, $4, `+lastOfLoop+`, $5, $6, 'compaction', 'system', $7, $8,
			       $9, $10, $11::bigint, $12, nullif($13, ''), $14, now() - $11::bigint * interval '1 millisecond', now(), $15, $16,
			           $17, $18
			RETURNING *)
		SELECT `+TurnColumns("e.branch_id")+` FROM e`,
		row.BranchID,
		done.ID,
		done.SessionID,
		sequence,
		chat,
		row.LoopID,
		status,
		done.Model,
		done.Work.Usage.InputTokens,
		done.Work.Usage.OutputTokens,
		result.DurationMS,
		done.ContextWindow,
		done.Reason,
		entry,
		conversation.ForkOf(row.LoopID),
		done.Work.Usage.CacheReadTokens,
		done.Work.Usage.CacheWriteTokens,
		done.Work.Usage.Cost,
	)

	turn, err := pgx.CollectExactlyOneRow(rows, ScanTurn)
	if err != nil {
		return fmt.Errorf("write compaction: %w", err)
	}

	var eventChat domain.ChatID
	if row.ChatID != nil {
		eventChat = *row.ChatID
	}

	turn.Blocks, turn.ToolCalls = []domain.Block{}, []domain.ToolCall{}

	return tx.Emit(done.SessionID, eventChat, domain.EventSessionCompacted, domain.SessionCompacted{Turn: turn.Turn})
}

// lastOfLoop is a scalar query for the last entry of loop $6 on branch $1.
const lastOfLoop = `(SELECT p.id FROM entries p WHERE p.branch_id = $1 AND p.loop_id = $6 ORDER BY p.sequence DESC LIMIT 1)`

// chatOfEntry returns the chat that a compaction's entry belongs to: the one that
// needs it, else the last one whose turns it archives, else the session's last.
func chatOfEntry(ctx context.Context, tx pgx.Tx, row compacting, done domain.ClosingCompaction) (chat domain.ChatID, err error) {
	switch {
	case row.ChatID != nil:
		return *row.ChatID, nil
	case done.Work.ChatID != "":
		return done.Work.ChatID, nil
	}

	err = tx.QueryRow(ctx, `SELECT id FROM chats WHERE session_id = $1 ORDER BY id DESC LIMIT 1`, done.SessionID).Scan(&chat)

	return chat, err
}

// summaryOf returns the summary that counts: a failed compaction has none.
func summaryOf(done domain.ClosingCompaction) string {
	if done.Status == domain.CompactionFailed {
		return ""
	}

	return done.Work.Summary
}
