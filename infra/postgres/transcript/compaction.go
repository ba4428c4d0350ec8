package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/chat"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// RequestCompaction makes a client's wish durable. While one of the session's
// compactions that a client has asked for still runs, that one is returned.
func (db *Base) RequestCompaction(ctx context.Context, ownerID, sessionID string) (domain.CompactionRun, error) {
	run := domain.CompactionRun{ID: domain.NewID(), SessionID: sessionID, OwnerID: ownerID}
	err := db.InTx(ctx, func(tx pgx.Tx) error {
		session, err := sessions.Lock(ctx, tx, sessionID, ownerID)
		if err != nil {
			return err
		}

		if session.Replaying {
			return chat.Replaying()
		}

		return tx.QueryRow(ctx, `
			WITH running AS (
				SELECT id FROM compactions
				WHERE  session_id = @session AND loop_id = 'root' AND chat_id IS NULL AND state = 'running' ORDER BY id DESC LIMIT 1),
			made AS (
				INSERT INTO compactions (id, session_id, branch_id, loop_id, trigger)
				SELECT @id, @session, @branch, 'root', 'manual' WHERE NOT EXISTS (SELECT 1 FROM running)
				RETURNING id)
			SELECT id FROM running UNION ALL SELECT id FROM made`,
			pgx.NamedArgs{"id": run.ID, "session": sessionID, "branch": session.BranchID}).Scan(&run.ID)
	})

	return run, pg.Fault("ask for a compaction", err)
}

// Compaction gives the result of an owner's compaction, or that it still runs.
func (db *Base) Compaction(ctx context.Context, ownerID, id string) (domain.CompactionResult, error) {
	var result domain.CompactionResult

	err := db.Pool.QueryRow(ctx, `
		SELECT coalesce(c.result, jsonb_build_object('compaction_id', c.id, 'status', 'running')) FROM compactions c
		    JOIN sessions s ON s.id = c.session_id
		WHERE  c.id = @id AND s.owner_id = @owner AND s.deleted_at IS NULL`,
		pgx.NamedArgs{"id": id, "owner": ownerID}).Scan(&result)
	if errors.Is(err, pgx.ErrNoRows) {
		return result, domain.Newf(domain.NotFound, "compaction_not_found", "compaction %s does not exist", id)
	}

	return result, pg.Fault("read compaction", err)
}

// LostCompactions gives the compactions that clients have asked for and that
// should be running for longer than a moment, at most limit of them, in the order of
// their ids and after the given one. Those of chats belong to the runs of their
// chats; what an ended chat left is closed here.
func (db *Base) LostCompactions(ctx context.Context, after string, limit int) ([]domain.CompactionRun, error) {
	if _, err := db.Pool.Exec(ctx, `
		UPDATE compactions c SET state = 'failed', ended_at = now(),
		       result = jsonb_build_object('compaction_id', c.id, 'status', 'failed', 'reason', 'the chat ended')
		WHERE  c.state = 'running' AND EXISTS (
			SELECT 1 FROM chats h LEFT JOIN loops l ON l.id = c.loop_id
			WHERE  h.id = c.chat_id AND h.state = 'ended' AND coalesce(l.state, 'ended') = 'ended')`); err != nil {
		return nil, pg.Fault("close compactions", err)
	}

	rows, _ := db.Pool.Query(ctx, `
		SELECT c.id, c.session_id, s.owner_id FROM compactions c JOIN sessions s ON s.id = c.session_id
		WHERE  c.state = 'running' AND c.chat_id IS NULL AND c.created_at < now() - interval '5 seconds' AND c.id > $1
		AND    s.deleted_at IS NULL
		ORDER  BY c.id LIMIT $2`, after, limit)
	lost, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.CompactionRun])

	return lost, pg.Fault("read compactions", err)
}

// OpenCompaction begins a compaction, or finds one that was begun.
func (db *Base) OpenCompaction(ctx context.Context, req domain.CompactionRequest) (domain.OpenedCompaction, error) {
	var out domain.OpenedCompaction

	err := db.InTx(ctx, func(tx pgx.Tx) error {
		if req.ID == "" {
			if _, err := tx.Exec(ctx, `
				INSERT INTO compactions (id, session_id, branch_id, loop_id, chat_id, step, trigger)
				SELECT @id, c.session_id, coalesce(l.branch_id, c.branch_id), @loop, c.id, @step, @trigger
				FROM   chats c LEFT JOIN loops l ON l.id = @loop
				WHERE  c.id = @chat AND c.session_id = @session AND `+conversation.Alive+`
				ON CONFLICT (chat_id, loop_id, step, trigger) DO NOTHING`,
				pgx.NamedArgs{
					"id":      domain.NewID(),
					"chat":    req.ChatID,
					"session": req.SessionID,
					"loop":    req.LoopID,
					"step":    req.Step,
					"trigger": req.Trigger,
				}); err != nil {
				return err
			}
		}

		var err error

		out, err = readCompaction(ctx, tx, req)

		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.OpenedCompaction{Stopped: true}, nil // its chat has ended, or its session is deleted
	}

	return out, pg.Fault("begin compaction", err)
}

func readCompaction(ctx context.Context, tx pgx.Tx, req domain.CompactionRequest) (domain.OpenedCompaction, error) {
	var out domain.OpenedCompaction

	fields := append(sessions.WorkFields(&out.Session), conversation.LoopFields(&out.Loop)...)
	fields = append(
		fields,
		&out.ID,
		&out.BranchID,
		&out.LoopID,
		&out.Trigger,
		&out.StartedAt,
		&out.Work,
		&out.Result,
		&out.Exhausted,
		&out.Chat.ID,
		&out.Chat.Trigger,
		&out.Chat.Mode,
		&out.Chat.Headless,
		&out.Chat.OutputSchema,
		&out.Chat.Model,
		&out.Stopped,
		&out.InChat,
	)

	which := `k.id = @id`
	if req.ID == "" {
		which = `k.chat_id = @chat AND k.loop_id = @loop AND k.step = @step AND k.trigger = @trigger`
	}

	err := tx.QueryRow(ctx, `
		SELECT `+sessions.WorkColumns+`, `+conversation.LoopColumns+`,
		       k.id, k.branch_id, k.loop_id, k.trigger, k.created_at, k.work,
		       coalesce(k.result, jsonb_build_object('compaction_id', k.id, 'status', 'running')), k.exhausted,
		       coalesce(c.id, ''), coalesce(c.trigger, ''), coalesce(c.mode, s.mode), coalesce(c.headless, false) OR l.task_id IS NOT NULL,
		       CASE WHEN l.id IS NULL THEN c.output_schema END, coalesce(l.model, c.model, s.model),
		       k.chat_id IS NOT NULL AND NOT `+conversation.Alive+`,
		       EXISTS (SELECT 1 FROM chats o WHERE o.session_id = s.id AND o.state IN ('running', 'parked'))
		FROM   compactions k JOIN sessions s ON s.id = k.session_id LEFT JOIN chats c ON c.id = k.chat_id LEFT
		    JOIN loops l ON l.id = k.loop_id
		WHERE  s.deleted_at IS NULL AND s.id = @session AND `+which,
		pgx.NamedArgs{
			"id": req.ID, "session": req.SessionID, "chat": req.ChatID, "loop": req.LoopID, "step": req.Step, "trigger": req.Trigger,
		}).Scan(fields...)

	return out, err
}

// AdvanceCompaction keeps how far a compaction has come. A worker that was
// thought dead and is behind changes nothing.
func (db *Base) AdvanceCompaction(ctx context.Context, id string, work domain.CompactionWork) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE compactions SET work = @work
		WHERE  id = @id AND state = 'running' AND coalesce((work->>'upto')::bigint, -2) <= @upto`,
		pgx.NamedArgs{"id": id, "work": work, "upto": work.Upto})

	return pg.Fault("keep compaction", err)
}

// compacting is a compaction that is about to end.
type compacting struct {
	BranchID string                   `db:"branch_id"`
	LoopID   string                   `db:"loop_id"`
	ChatID   *string                  `db:"chat_id"`
	Trigger  domain.CompactionTrigger `db:"trigger"`
	State    domain.CompactionStatus  `db:"state"`
	Result   domain.CompactionResult  `db:"result"`
	Done     bool                     `db:"exhausted"`
}

// CloseCompaction ends a compaction once: with its entry on the
// branch and its event, or skipped without one. Exhausted says
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
		if exhausted, err = endCompaction(ctx, tx, row, done, result); err != nil || done.Status == domain.CompactionSkipped {
			return err
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

// preview is the beginning of a summary.
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

// compactionEntry is what the entry of a compaction holds besides a turn's
// fields: what clients are shown, and where the transcript goes on.
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

	eventChat := ""
	if row.ChatID != nil {
		eventChat = *row.ChatID
	}

	turn.Blocks, turn.ToolCalls = []domain.Block{}, []domain.ToolCall{}

	return tx.Emit(done.SessionID, eventChat, domain.EventSessionCompacted, domain.SessionCompacted{Turn: turn.Turn})
}

// lastOfLoop is a scalar query for the last entry of loop $6 on branch $1.
const lastOfLoop = `(SELECT p.id FROM entries p WHERE p.branch_id = $1 AND p.loop_id = $6 ORDER BY p.sequence DESC LIMIT 1)`

// chatOfEntry is the chat that a compaction's entry belongs to: the one that
// needs it, else the last one whose turns it archives, else the session's last.
func chatOfEntry(ctx context.Context, tx pgx.Tx, row compacting, done domain.ClosingCompaction) (chat string, err error) {
	switch {
	case row.ChatID != nil:
		return *row.ChatID, nil
	case done.Work.ChatID != "":
		return done.Work.ChatID, nil
	}

	err = tx.QueryRow(ctx, `SELECT id FROM chats WHERE session_id = $1 ORDER BY id DESC LIMIT 1`, done.SessionID).Scan(&chat)

	return chat, err
}

// summaryOf is the summary that counts: a failed compaction has none.
func summaryOf(done domain.ClosingCompaction) string {
	if done.Status == domain.CompactionFailed {
		return ""
	}

	return done.Work.Summary
}

// PruneCompactions deletes the progress of compactions that have ended, at most limit of
// them in one transaction, and returns how many they were; their results stay.
func (db *Base) PruneCompactions(ctx context.Context, limit int) (int64, error) {
	return db.Prune(ctx, "forget the work of ended compactions", `
		UPDATE compactions SET work = '{}' WHERE id = ANY (ARRAY (
			SELECT id FROM compactions WHERE state <> 'running' AND work <> '{}' ORDER BY id LIMIT $1))`, limit)
}

// DelayCompaction keeps that a summary waits for its model: how far it has come,
// its faults, and for the main loop of a chat what the chat waits for.
func (s *Store) DelayCompaction(ctx context.Context, chatID string, delayed domain.OpenedCompaction, waiting domain.WaitingReason) error {
	err := s.Update(ctx, func(tx *pg.Tx) error {
		if _, err := sessions.Lock(ctx, tx, delayed.Session.ID, ""); err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			UPDATE compactions SET work = @work
			WHERE  id = @id AND state = 'running' AND coalesce((work->>'upto')::bigint, -2) <= @upto`,
			pgx.NamedArgs{"id": delayed.ID, "work": delayed.Work, "upto": delayed.Work.Upto})
		if err != nil || tag.RowsAffected() == 0 || chatID == "" || delayed.LoopID != domain.RootLoop {
			return err
		}

		return conversation.WaitForModel(ctx, tx, delayed.Session.ID, chatID, waiting, time.Until(delayed.Work.RetryAt))
	})
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil // deleted meanwhile: the next try finds that too
	}

	return pg.Fault("delay compaction", err)
}
