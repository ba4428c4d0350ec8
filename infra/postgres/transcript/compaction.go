package transcript

import (
	"context"
	"errors"
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
func (db *Base) RequestCompaction(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.CompactionRun, error) {
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

// EndCompactionsOfChats fails the running compactions of chats and sub-agents that have
// ended. Those that clients have requested belong to workflows of their own.
func (db *Base) EndCompactionsOfChats(ctx context.Context) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE compactions c SET state = 'failed', ended_at = now(),
		       result = jsonb_build_object('compaction_id', c.id, 'status', 'failed', 'reason', 'the chat ended')
		WHERE  c.state = 'running' AND EXISTS (
			SELECT 1 FROM chats h LEFT JOIN loops l ON l.id = c.loop_id
			WHERE  h.id = c.chat_id AND h.state = 'ended' AND coalesce(l.state, 'ended') = 'ended')`)

	return pg.Fault("end the compactions of ended chats", err)
}

// OpenCompaction starts a compaction, or finds one that was started.
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

// PruneCompactions deletes the progress of compactions that have ended, at most limit of
// them in one transaction, and returns how many they were; their results stay.
func (db *Base) PruneCompactions(ctx context.Context, limit int) (int64, error) {
	return db.Prune(ctx, "forget the work of ended compactions", `
		UPDATE compactions SET work = '{}' WHERE id = ANY (ARRAY (
			SELECT id FROM compactions WHERE state <> 'running' AND work <> '{}' ORDER BY id LIMIT $1))`, limit)
}

// DelayCompaction keeps that a summary waits for its model: how far it has come,
// its faults, and for the main loop of a chat what the chat waits for.
func (s *Store) DelayCompaction(
	ctx context.Context,
	chatID domain.ChatID,
	delayed domain.OpenedCompaction,
	waiting domain.WaitingReason,
) error {
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
		return nil // deleted in the meantime: the next try finds that too
	}

	return pg.Fault("delay compaction", err)
}
