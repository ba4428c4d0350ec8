package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// captureLease is how long a process has to capture what it took up, from its
// last sign of life on.
const captureLease = 5 * time.Second

// insertCheckpoint writes a checkpoint whose files are still to be captured. The
// parameters are named @checkpoint, @session, @branch, @turn, @chat, @kind,
// @sequence and @label.
const insertCheckpoint = `
	INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence, label)
	VALUES (@checkpoint, @session, @branch, @turn, nullif(@chat, ''), @kind, @sequence, @label)`

// reserveCapture notes, when a turn of the main loop asks for tools that can
// write, that the files are to be captured after them.
func reserveCapture(batch *pgx.Batch, turn domain.ClosingTurn) {
	if turn.LoopID != domain.RootLoop {
		return // what sub-agents do is part of the turn that called them
	}
	for _, call := range turn.Calls {
		if call.Settled == nil && (call.Acts || call.Fork != nil) {
			batch.Queue(`
				INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence)
				SELECT $1, session_id, branch_id, id, chat_id, 'tool_batch', sequence FROM entries WHERE id = $2`,
				domain.NewID(), turn.EntryID)
			return
		}
	}
}

// captureDue says of the checkpoint k that its files can be captured now: no
// tool of its turn is still to be run. Questions to the user write nothing.
const captureDue = `
	k.state = 'pending' AND (k.kind <> 'tool_batch' OR NOT EXISTS (
		SELECT 1 FROM tool_calls o WHERE o.entry_id = k.turn_id
		AND    (o.status = 'pending' OR o.status = 'awaiting_answer' AND o.tool_name <> 'AskUserQuestion')))`

// captureDueIn says whether files of a session are to be captured before any
// more of them may change.
func captureDueIn(session string) string {
	return `EXISTS (SELECT 1 FROM checkpoints k WHERE k.session_id = ` + session + ` AND ` + captureDue + `)`
}

// captureUntakenIn is captureDueIn for what no process has in hand.
func captureUntakenIn(session string) string {
	return `EXISTS (SELECT 1 FROM checkpoints k WHERE k.session_id = ` + session + ` AND ` + captureDue + `
		AND (k.lease_until IS NULL OR k.lease_until < now()))`
}

// TakeCaptures gives a process the checkpoints of a session that are due, but
// for those that it has in hand already. With all, those are due too whose turns
// have tools left that never ran; the caller knows that nothing runs. The lease
// keeps them for the process; see KeepCaptures.
func (db *DB) TakeCaptures(ctx context.Context, sessionID, owner string, inHand []string, all bool) (domain.DueCaptures, error) {
	due := domain.DueCaptures{SessionID: sessionID}
	if inHand == nil {
		inHand = []string{}
	}
	args := pgx.NamedArgs{"session": sessionID, "owner": owner, "hand": inHand, "all": all, "lease": captureLease}
	err := db.Quietly(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			UPDATE checkpoints k SET lease_owner = @owner, lease_until = now() + @lease::interval
			WHERE  k.session_id = @session AND k.state = 'pending' AND (@all OR (`+captureDue+`))
			AND    (k.lease_until IS NULL OR k.lease_until < now() OR k.lease_owner = @owner) AND k.id <> ALL(@hand)
			RETURNING k.id`, args).
			Query(func(rows pgx.Rows) (err error) {
				due.IDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			})
	})
	switch {
	case err != nil:
	case len(due.IDs) == 0:
		err = db.Pool.QueryRow(ctx, `
			SELECT count(*) FROM checkpoints k
			WHERE  k.session_id = @session AND k.state = 'pending' AND (@all OR (`+captureDue+`)) AND k.id <> ALL(@hand)`, args).Scan(&due.Held)
	default:
		args["ids"] = due.IDs
		err = db.Pool.QueryRow(ctx, `
			SELECT s.sandbox_uid,
			       EXISTS (SELECT 1 FROM background_tasks b WHERE b.session_id = s.id AND b.status = 'running'),
			       EXISTS (SELECT 1 FROM checkpoints k JOIN checkpoints n ON n.branch_id = k.branch_id AND n.sequence > k.sequence AND n.kind = 'tool_batch'
			               JOIN tool_calls t ON t.entry_id = n.turn_id AND t.attempt > 0
			               WHERE k.id = ANY(@ids)),
			       (SELECT count(*) FROM checkpoints k
			        WHERE  k.session_id = s.id AND k.state = 'pending' AND (`+captureDue+`) AND k.id <> ALL(@ids) AND k.id <> ALL(@hand)),
			       coalesce((`+beforeCheckpoint+`), '')
			FROM   sessions s WHERE s.id = @session AND s.deleted_at IS NULL`, args).
			Scan(&due.SandboxUID, &due.Busy, &due.Late, &due.Held, &due.Previous)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.DueCaptures{SessionID: sessionID}, nil // deleted meanwhile
	}
	return due, fault("take up checkpoints", err)
}

// beforeCheckpoint is a scalar query for the snapshot that the checkpoints @ids
// are compared with: for a listed one that of the listed one before it on its
// branch, else the last that was made.
const beforeCheckpoint = `
	SELECT coalesce(
		(SELECT before.snapshot_id
		 FROM   (SELECT k.branch_id, k.sequence FROM checkpoints k WHERE k.id = ANY(@ids) AND k.kind <> 'tool_batch' ORDER BY k.id DESC LIMIT 1) own
		 CROSS  JOIN LATERAL (
			SELECT own.branch_id, own.sequence AS upto
			UNION  ALL
			SELECT l.branch_id, least(l.upto, own.sequence) FROM branches b, jsonb_to_recordset(b.lineage) AS l (branch_id text, upto bigint)
			WHERE  b.id = own.branch_id) seen
		 CROSS  JOIN LATERAL (
			SELECT k.snapshot_id, k.sequence, k.id FROM checkpoints k
			WHERE  k.branch_id = seen.branch_id AND k.sequence <= seen.upto AND k.kind <> 'tool_batch' AND k.state = 'captured'
			ORDER  BY k.sequence DESC, k.id DESC LIMIT 1) before
		 ORDER  BY before.sequence DESC, before.id DESC LIMIT 1),
		(SELECT k.snapshot_id FROM checkpoints k
		 WHERE  k.session_id = @session AND k.state = 'captured' ORDER BY k.id DESC LIMIT 1))`

// KeepCaptures says that the process which took the checkpoints up is alive.
func (db *DB) KeepCaptures(ctx context.Context, owner string, ids []string) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE checkpoints SET lease_until = now() + $3::interval
		WHERE  id = ANY($2) AND lease_owner = $1 AND state = 'pending'`, owner, ids, captureLease)
	return fault("keep checkpoints", err)
}

// RecordCaptures writes what the checkpoints hold. Those that somebody else has
// captured meanwhile stay as they are.
func (db *DB) RecordCaptures(ctx context.Context, ids []string, s domain.Snapshot) error {
	err := db.Quietly(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			UPDATE checkpoints SET state = 'captured', snapshot_id = @snapshot, changed = @changed, added = @added, deleted = @deleted,
			       bytes = @bytes, complete = @complete, failure = NULL, lease_owner = NULL, lease_until = NULL, captured_at = now()
			WHERE  id = ANY(@ids) AND state <> 'captured'`,
			pgx.NamedArgs{
				"ids": ids, "snapshot": s.ID, "changed": s.Changed, "added": s.Added, "deleted": s.Deleted, "bytes": s.Bytes, "complete": s.Complete,
			})
	})
	return fault("record checkpoints", err)
}

// FailCaptures gives up the files of checkpoints, with the reason. They stay
// points of the conversation.
func (db *DB) FailCaptures(ctx context.Context, ids []string, reason string) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE checkpoints SET state = 'failed', failure = left($2, 1000), lease_owner = NULL, lease_until = NULL
		WHERE  id = ANY($1) AND state = 'pending'`, ids, reason)
	return fault("give up checkpoints", err)
}

// LeaveCaptures gives checkpoints back, for another try by whoever comes next.
func (db *DB) LeaveCaptures(ctx context.Context, owner string, ids []string) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE checkpoints SET lease_owner = NULL, lease_until = NULL
		WHERE  id = ANY($2) AND lease_owner = $1 AND state = 'pending'`, owner, ids)
	return fault("leave checkpoints", err)
}

// ForgottenCaptures gives the sessions with checkpoints that were due for longer
// than age and that no process has in hand.
func (db *DB) ForgottenCaptures(ctx context.Context, age time.Duration) ([]string, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT DISTINCT k.session_id FROM checkpoints k JOIN sessions s ON s.id = k.session_id
		WHERE  k.created_at < now() - $1::interval AND (k.lease_until IS NULL OR k.lease_until < now())
		AND    s.deleted_at IS NULL AND `+captureDue+` LIMIT 50`, age)
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return sessions, fault("look for checkpoints that were left", err)
}
