package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// operationLease is how long a process holds an operation without renewing it.
const operationLease = 6 * time.Second

func historyBusy() error {
	return domain.Newf(domain.Conflict, domain.CodeSessionBusy, "the history of this session is being changed")
}

func checkpointNotFound(id string) error {
	return domain.Newf(domain.NotFound, "checkpoint_not_found", "checkpoint %s does not exist in this session", id)
}

// ClaimHistory takes a session for a rewind, a change of branch or a what-if:
// from its commit on no chat begins before FinishHistory or AbortHistory. The
// session must be idle: no chat runs or waits in the queue, nothing else moves
// it, and no replay is played in it. The message of a what-if is durable with it.
func (j *Journal) ClaimHistory(ctx context.Context, ownerID, process string, want domain.HistoryRequest) (domain.ClaimedHistory, error) {
	var out domain.ClaimedHistory
	err := j.Commit(ctx, func(c *Change) error {
		out = domain.ClaimedHistory{}
		session, err := lockSession(ctx, c, want.SessionID, ownerID)
		if err != nil {
			return err
		}
		if want.Send != nil {
			if ack, found, err := sentBefore(ctx, c, *want.Send); err != nil || found {
				out.Ack = ack
				return err
			}
		}
		if err := mustBeIdle(ctx, c, session); err != nil {
			return err
		}
		active, err := readBranch(ctx, c, session.ID, session.BranchID)
		if err != nil {
			return err
		}
		goal, err := historyGoal(ctx, c, session, active, want)
		if err != nil {
			return err
		}
		if want.Kind == domain.OperationSwitch && goal.branchID == active.ID {
			out.Done, err = standing(ctx, c, session, active, want.CheckpointID)
			return err
		}
		if want.Send != nil {
			if out.Ack, err = queueMessage(ctx, c, session, *want.Send, domain.DeliverRun, 0, false); err != nil {
				return err
			}
			goal.chatID = out.Ack.ChatID
		}
		out.Operation, err = claimOperation(ctx, c, session, active, ownerID, process, want, goal)
		return err
	})
	return out, fault("claim the history of a session", err)
}

func mustBeIdle(ctx context.Context, tx pgx.Tx, session lockedSession) error {
	if session.Replaying {
		return errReplaying()
	}
	if session.OperationID != nil {
		return historyBusy()
	}
	if session.Replaying {
		return errReplaying()
	}
	queued, err := queueLength(ctx, tx, session.ID)
	if err != nil {
		return err
	}
	if session.ActiveChatID != nil || queued > 0 {
		return domain.Newf(domain.Conflict, domain.CodeSessionBusy, "a chat is running in this session")
	}
	return nil
}

// goal is where an operation goes: a branch to fork at a sequence, or, without
// one, a branch to go to the end of.
type goal struct {
	branchID string
	sequence *int64
	chatID   string
}

func historyGoal(ctx context.Context, tx pgx.Tx, session lockedSession, active branchRow, want domain.HistoryRequest) (goal, error) {
	if want.Kind == domain.OperationWhatif {
		sequence, err := afterStep(ctx, tx, active, want.Send.Whatif.FromStep)
		if err == nil {
			err = knownEntries(ctx, tx, session.ID, want.Send.Whatif)
		}
		return goal{branchID: active.ID, sequence: &sequence}, err
	}
	at, err := readPoint(ctx, tx, session.ID, want.CheckpointID)
	if err != nil || want.Kind == domain.OperationSwitch {
		return goal{branchID: at.BranchID}, err
	}
	sequence, err := at.position(ctx, tx)
	return goal{branchID: at.BranchID, sequence: &sequence}, err
}

// point is a checkpoint as a place on its branch.
type point struct {
	ID         string                `db:"id"`
	BranchID   string                `db:"branch_id"`
	TurnID     string                `db:"turn_id"`
	ChatID     *string               `db:"chat_id"`
	Kind       domain.CheckpointKind `db:"kind"`
	Sequence   int64                 `db:"sequence"`
	SnapshotID *string               `db:"snapshot_id"`
}

func readPoint(ctx context.Context, q queryer, sessionID, id string) (point, error) {
	rows, _ := q.Query(ctx, `
		SELECT id, branch_id, turn_id, chat_id, kind, sequence, snapshot_id FROM checkpoints
		WHERE  id = $1 AND session_id = $2`, id, sessionID)
	at, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[point])
	if errors.Is(err, pgx.ErrNoRows) {
		return at, checkpointNotFound(id)
	}
	return at, err
}

// position gives the sequence of the first entry that comes after the point.
func (p point) position(ctx context.Context, q queryer) (int64, error) {
	if p.Kind != domain.CheckpointToolBatch {
		return p.Sequence, nil
	}
	return nextOfMainLoop(ctx, q, p.BranchID, p.Sequence)
}

// nextOfMainLoop gives the sequence of the first main-loop entry of a branch
// after one, and so skips the turns of the sub-agents that the one called. With
// none it is the branch's end.
func nextOfMainLoop(ctx context.Context, q queryer, branchID string, after int64) (sequence int64, err error) {
	rows, _ := q.Query(ctx, `
		SELECT coalesce(
			(SELECT e.sequence FROM `+seenFrom("b.id")+` CROSS JOIN LATERAL (
				SELECT p.sequence FROM entries p
				WHERE  p.branch_id = seen.branch_id AND p.sequence > $2 AND p.sequence < seen.upto AND p.loop_id = 'root'
				ORDER  BY p.sequence LIMIT 1) e
			 ORDER BY e.sequence LIMIT 1), b.next_sequence)
		FROM branches b WHERE b.id = $1`, branchID, after)
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}

// afterStep gives the sequence behind a step of the branch, counted from 1, with
// all that belongs to the step. Step 0 stands before the first one, behind the
// message that started it (decisions.md 5, 8.27).
func afterStep(ctx context.Context, tx pgx.Tx, branch branchRow, step int) (int64, error) {
	rows, _ := tx.Query(ctx, `
		SELECT e.chat_id, e.step, e.sequence FROM `+onBranch("loop_id = 'root' AND role = 'assistant'")+`
		WHERE e.kind = 'message' ORDER BY e.sequence`, branch.ID)
	type call struct {
		chat     string
		step     int
		sequence int64
	}
	calls, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (call, error) {
		var c call
		return c, row.Scan(&c.chat, &c.step, &c.sequence)
	})
	if err != nil {
		return 0, fmt.Errorf("count steps: %w", err)
	}
	count, last := 0, int64(-1)
	for i, c := range calls {
		// A call that failed and was made again is one step with two turns.
		if i == 0 || c.chat != calls[i-1].chat || c.step != calls[i-1].step {
			count++
		}
		if step == 0 {
			return c.sequence, nil
		}
		if count == step {
			last = c.sequence
		}
	}
	if step < 0 || step > count || count == 0 {
		return 0, domain.Invalidf("body.whatif.from_step", "must be between 0 and %d, the steps of the active branch", count)
	}
	return nextOfMainLoop(ctx, tx, branch.ID, last)
}

// knownEntries refuses a what-if that names entries which the session has not.
func knownEntries(ctx context.Context, tx pgx.Tx, sessionID string, w *domain.Whatif) error {
	named := append([]string{}, w.DeprecateEntryIDs...)
	for _, quote := range w.Quotes {
		if quote.EntryID != "" {
			named = append(named, quote.EntryID)
		}
	}
	rows, _ := tx.Query(ctx, `
		SELECT n FROM unnest($1::text[]) n
		WHERE  NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = n AND e.session_id = $2) LIMIT 1`, named, sessionID)
	unknown, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(unknown) > 0 {
		err = domain.Invalidf("body.whatif", "names an entry that this session does not have")
	}
	return err
}

// claimOperation notes where the session stands, with its files to be captured,
// and what is to be done.
func claimOperation(ctx context.Context, c *Change, session lockedSession, active branchRow, ownerID, process string,
	want domain.HistoryRequest, goal goal,
) (*domain.HistoryOperation, error) {
	op := domain.HistoryOperation{ID: domain.NewID(), SessionID: session.ID, Kind: want.Kind, LeftID: domain.NewID(), ChatID: goal.chatID}
	left := domain.CheckpointCreated{
		ID: op.LeftID, BranchID: active.ID, Sequence: active.NextSequence, Kind: domain.CheckpointPreRewind, Label: leftLabels[want.Kind],
	}
	err := c.QueryRow(ctx, `SELECT coalesce(`+lastOnBranch("$1", "9223372036854775807")+`, ''), sandbox_uid FROM sessions WHERE id = $2`,
		active.ID, session.ID).Scan(&left.TurnID, &op.SandboxUID)
	if err != nil {
		return nil, err
	}
	args := pgx.NamedArgs{
		"checkpoint": left.ID, "session": session.ID, "branch": left.BranchID, "turn": left.TurnID, "chat": "", "kind": left.Kind,
		"sequence": left.Sequence, "label": left.Label,
	}
	if _, err := c.Exec(ctx, insertCheckpoint, args); err != nil {
		return nil, fmt.Errorf("write the checkpoint of what is left: %w", err)
	}
	deprecate := []string{}
	if want.Send != nil && want.Send.Whatif.DeprecateEntryIDs != nil {
		deprecate = want.Send.Whatif.DeprecateEntryIDs
	}
	_, err = c.Exec(ctx, `
		INSERT INTO history_operations (id, session_id, kind, caller_id, checkpoint_id, left_id, branch_id, sequence, chat_id, deprecate,
		                                lease_owner, lease_until)
		VALUES (@id, @session, @kind, @caller, nullif(@checkpoint, ''), @left, @branch, @sequence, nullif(@chat, ''), @deprecate,
		        @process, now() + @lease::interval)`,
		pgx.NamedArgs{
			"id": op.ID, "session": session.ID, "kind": op.Kind, "caller": ownerID, "checkpoint": want.CheckpointID, "left": op.LeftID,
			"branch": goal.branchID, "sequence": goal.sequence, "chat": goal.chatID, "deprecate": deprecate,
			"process": process, "lease": operationLease,
		})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	if _, err := c.Exec(ctx, `UPDATE sessions SET operation_id = $2 WHERE id = $1`, session.ID, op.ID); err != nil {
		return nil, err
	}
	return &op, c.Emit(session.ID, "", domain.EventCheckpoint, left)
}

// leftLabels name what a session left a place for.
var leftLabels = map[domain.HistoryOperationKind]string{
	domain.OperationRewind: "Before a rewind",
	domain.OperationSwitch: "Before a change of branch",
	domain.OperationWhatif: "Before a what-if",
}

// standing answers a change to the branch on which the session stands already.
func standing(ctx context.Context, tx pgx.Tx, session lockedSession, active branchRow, checkpointID string) (*domain.MovedHistory, error) {
	done := &domain.MovedHistory{
		SessionID: session.ID, CheckpointID: &checkpointID, BranchID: active.ID, PreviousBranchID: active.ID,
		RemovedTurnIDs: []string{}, Files: domain.RestoredFiles{Skipped: []domain.SkippedFile{}},
	}
	err := tx.QueryRow(ctx, `SELECT `+lastOnBranch("$1", "9223372036854775807"), active.ID).Scan(&done.HeadTurnID)
	return done, err
}

// TakeHistory gives a process the operations that no living process holds.
func (db *DB) TakeHistory(ctx context.Context, process string) ([]domain.HistoryOperation, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE history_operations o SET lease_owner = $1, lease_until = now() + $2::interval
		FROM   sessions s
		WHERE  o.state = 'running' AND (o.lease_until IS NULL OR o.lease_until < now()) AND s.id = o.session_id AND s.deleted_at IS NULL
		RETURNING o.id, o.session_id, s.sandbox_uid, o.kind, o.left_id, coalesce(o.chat_id, '')`, process, operationLease)
	taken, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.HistoryOperation, error) {
		var op domain.HistoryOperation
		return op, row.Scan(&op.ID, &op.SessionID, &op.SandboxUID, &op.Kind, &op.LeftID, &op.ChatID)
	})
	return taken, fault("take up history operations", err)
}

// KeepHistory says that the process which holds an operation is alive.
func (db *DB) KeepHistory(ctx context.Context, process, operationID string) error {
	tag, err := db.Pool.Exec(ctx, `
		UPDATE history_operations SET lease_until = now() + $3::interval
		WHERE  id = $2 AND lease_owner = $1 AND state = 'running'`, process, operationID, operationLease)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.ErrFenced
	}
	return fault("keep a history operation", err)
}

// HistoryFiles gives the snapshots of an operation: to restore, and of what the
// session stood at. The first is empty when the files of that place were never
// captured.
func (db *DB) HistoryFiles(ctx context.Context, operationID string) (snapshot, left string, err error) {
	var kind domain.HistoryOperationKind
	var branch string
	var sequence *int64
	var asked *string
	err = db.Pool.QueryRow(ctx, `
		SELECT o.kind, o.branch_id, o.sequence, t.snapshot_id, coalesce(l.snapshot_id, '')
		FROM   history_operations o JOIN checkpoints l ON l.id = o.left_id LEFT JOIN checkpoints t ON t.id = o.checkpoint_id
		WHERE  o.id = $1`, operationID).Scan(&kind, &branch, &sequence, &asked, &left)
	switch {
	case err != nil:
	case kind == domain.OperationRewind:
		if asked != nil {
			snapshot = *asked
		}
	case kind == domain.OperationWhatif:
		snapshot, err = filesBefore(ctx, db.Pool, branch, *sequence)
	default:
		snapshot, err = filesAtEnd(ctx, db.Pool, branch)
	}
	return snapshot, left, fault("read what is to be restored", err)
}

// filesBefore gives the snapshot of the files as they were before an entry of a
// branch came; empty when they were not captured.
func filesBefore(ctx context.Context, q queryer, branchID string, sequence int64) (string, error) {
	rows, _ := q.Query(ctx, `
		SELECT coalesce(k.snapshot_id, '') FROM `+seenFrom("$1")+`
		CROSS  JOIN LATERAL (
			SELECT c.snapshot_id, c.sequence, c.id FROM checkpoints c
			WHERE  c.branch_id = seen.branch_id AND c.sequence < least(seen.upto, $2::bigint)
			ORDER  BY c.sequence DESC, c.id DESC LIMIT 1) k
		ORDER  BY k.sequence DESC, k.id DESC LIMIT 1`, branchID, sequence)
	return firstText(rows)
}

// filesAtEnd gives the snapshot of the files as they were when a branch was left.
func filesAtEnd(ctx context.Context, q queryer, branchID string) (string, error) {
	rows, _ := q.Query(ctx, `
		SELECT coalesce(k.snapshot_id, '') FROM checkpoints k
		WHERE  k.branch_id = $1 ORDER BY k.sequence DESC, k.id DESC LIMIT 1`, branchID)
	snapshot, err := firstText(rows)
	if err == nil && snapshot == "" {
		return filesBefore(ctx, q, branchID, 1<<62)
	}
	return snapshot, err
}

func firstText(rows pgx.Rows) (string, error) {
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0], nil
}
