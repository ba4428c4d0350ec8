package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/chat"
	"everloop/domain/history"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/infra/postgres/transcript"
)

func checkpointNotFound(id domain.CheckpointID) error {
	return domain.Newf(domain.NotFound, "checkpoint_not_found", "checkpoint %s does not exist in this session", id)
}

// ClaimHistory takes a session for a rewind, a change of branch or a what-if:
// from its commit on no chat starts before FinishHistory or AbortHistory. The
// session must be idle: no chat runs or waits in the queue, nothing else moves
// it, and no replay is played in it. The message of a what-if is durable with it.
func (s *Store) ClaimHistory(ctx context.Context, ownerID string, want history.Request) (history.Claimed, error) {
	var out history.Claimed

	err := s.outbox.Update(ctx, func(tx *pg.Tx) error {
		out = history.Claimed{}
		session, err := sessions.Lock(ctx, tx, want.SessionID, ownerID)
		if err != nil {
			return err
		}

		if want.Send != nil {
			if ack, found, err := conversation.SentBefore(ctx, tx, *want.Send); err != nil || found {
				out.Ack = ack
				return err
			}
		}

		if err := mustBeIdle(ctx, tx, session); err != nil {
			return err
		}

		active, err := readBranch(ctx, tx, session.ID, session.BranchID)
		if err != nil {
			return err
		}

		goal, err := historyGoal(ctx, tx, session, active, want)
		if err != nil {
			return err
		}

		if want.Kind == domain.OperationSwitch && goal.branchID == active.ID {
			out.Done, err = standing(ctx, tx, session, active, want.CheckpointID)
			return err
		}

		if want.Send != nil {
			if out.Ack, err = conversation.QueueMessage(
				ctx,
				tx,
				session,
				*want.Send,
				chat.Delivery{Applied: domain.DeliverRun},
			); err != nil {
				return err
			}

			goal.chatID = out.Ack.ChatID
		}

		out.Operation, err = claimOperation(ctx, tx, session, active, ownerID, want, goal)

		return err
	})

	return out, pg.Fault("claim the history of a session", err)
}

// mustBeIdle returns an error unless history.Claim lets an operation take the session.
func mustBeIdle(ctx context.Context, tx pgx.Tx, session sessions.Locked) error {
	state := session.Chats()
	if state.Free() == nil {
		var err error
		if state.Queued, err = conversation.QueueLength(ctx, tx, session.ID); err != nil {
			return err
		}
	}

	return history.Claim(state)
}

// goal is where an operation goes: a branch to fork at a sequence, or, without
// one, a branch to go to the end of.
type goal struct {
	branchID domain.BranchID
	sequence *int64
	chatID   domain.ChatID
}

func historyGoal(ctx context.Context, tx pgx.Tx, session sessions.Locked, active branchRow, want history.Request) (goal, error) {
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
	BranchID   domain.BranchID       `db:"branch_id"`
	TurnID     domain.TurnID         `db:"turn_id"`
	ChatID     *domain.ChatID        `db:"chat_id"`
	Kind       domain.CheckpointKind `db:"kind"`
	Sequence   int64                 `db:"sequence"`
	SnapshotID *string               `db:"snapshot_id"`
}

func readPoint(ctx context.Context, q pg.Queryer, sessionID domain.SessionID, id domain.CheckpointID) (point, error) {
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
func (p point) position(ctx context.Context, q pg.Queryer) (int64, error) {
	if p.Kind != domain.CheckpointToolBatch {
		return p.Sequence, nil
	}

	return nextOfMainLoop(ctx, q, p.BranchID, p.Sequence)
}

// nextOfMainLoop gives the sequence of the first main-loop entry of a branch
// after one, and so skips the turns of the sub-agents that the one called. With
// none it is the branch's end.
func nextOfMainLoop(ctx context.Context, q pg.Queryer, branchID domain.BranchID, after int64) (sequence int64, err error) {
	rows, _ := q.Query(ctx, `
		SELECT coalesce(
			(SELECT e.sequence FROM `+transcript.SeenFrom("b.id")+` CROSS JOIN LATERAL (
				SELECT p.sequence FROM entries p
				WHERE  p.branch_id = seen.branch_id AND p.sequence > $2 AND p.sequence < seen.upto AND p.loop_id = 'root'
				ORDER  BY p.sequence LIMIT 1) e
			 ORDER BY e.sequence LIMIT 1), b.next_sequence)
		FROM branches b WHERE b.id = $1`, branchID, after)

	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}

// afterStep returns the sequence behind a step of the branch; see history.AfterStep.
func afterStep(ctx context.Context, tx pgx.Tx, branch branchRow, step int) (int64, error) {
	rows, _ := tx.Query(ctx, `
		SELECT e.chat_id, e.step, e.sequence FROM `+transcript.OnBranch("loop_id = 'root' AND role = 'assistant'")+`
		WHERE e.kind = 'message' ORDER BY e.sequence`, branch.ID)

	calls, err := pgx.CollectRows(rows, pgx.RowToStructByPos[history.ModelCall])
	if err != nil {
		return 0, fmt.Errorf("count steps: %w", err)
	}

	sequence, before, err := history.AfterStep(calls, step)
	if err != nil || before {
		return sequence, err
	}

	return nextOfMainLoop(ctx, tx, branch.ID, sequence)
}

// knownEntries refuses a what-if that names entries which the session has not.
func knownEntries(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, w *domain.Whatif) error {
	named := append([]domain.TurnID{}, w.DeprecateEntryIDs...)

	fields := make([]string, 0, len(named)+len(w.Quotes))
	for i := range named {
		fields = append(fields, fmt.Sprintf("body.whatif.deprecate_entry_ids[%d]", i))
	}

	for i, quote := range w.Quotes {
		if quote.EntryID != "" {
			named, fields = append(named, quote.EntryID), append(fields, fmt.Sprintf("body.whatif.quotes[%d].entry_id", i))
		}
	}

	rows, _ := tx.Query(ctx, `
		SELECT place - 1 FROM unnest($1::text[]) WITH ORDINALITY AS n (id, place)
		WHERE  NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = n.id AND e.session_id = $2) ORDER BY place LIMIT 1`, named, sessionID)

	unknown, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err == nil && len(unknown) > 0 {
		err = domain.Invalidf(fields[unknown[0]], "names an entry that this session does not have")
	}

	return err
}

// claimOperation notes where the session stands, with its files to be captured,
// and what must be done.
func claimOperation(ctx context.Context, tx *pg.Tx, session sessions.Locked, active branchRow, ownerID string,
	want history.Request, goal goal,
) (*history.Operation, error) {
	op := history.Operation{
		ID:        domain.NewID(),
		SessionID: session.ID,
		Kind:      want.Kind,
		State:     history.StateRunning,
		LeftID:    domain.CheckpointID(domain.NewID()),
		ChatID:    goal.chatID,
	}
	left := domain.CheckpointCreated{
		ID: op.LeftID, BranchID: active.ID, Sequence: active.NextSequence, Kind: domain.CheckpointPreRewind, Label: leftLabels[want.Kind],
	}

	err := tx.QueryRow(ctx, `SELECT coalesce(`+lastOnBranch("$1", "9223372036854775807")+`, ''), owner_id, sandbox_uid FROM sessions
		WHERE id = $2`,
		active.ID, session.ID).Scan(&left.TurnID, &op.OwnerID, &op.SandboxUID)
	if err != nil {
		return nil, err
	}

	args := pgx.NamedArgs{
		"checkpoint": left.ID, "session": session.ID, "branch": left.BranchID, "turn": left.TurnID, "chat": "", "kind": left.Kind,
		"sequence": left.Sequence, "label": left.Label,
	}
	if _, err := tx.Exec(ctx, conversation.InsertCheckpoint, args); err != nil {
		return nil, fmt.Errorf("write the checkpoint of what is left: %w", err)
	}

	deprecate := []domain.TurnID{}
	if want.Send != nil && want.Send.Whatif.DeprecateEntryIDs != nil {
		deprecate = want.Send.Whatif.DeprecateEntryIDs
	}

	_, err = tx.Exec(ctx, `
		INSERT INTO history_operations (id, session_id, kind, caller_id, checkpoint_id, left_id, branch_id, sequence, chat_id, deprecate)
		VALUES (@id, @session, @kind, @caller, nullif(@checkpoint, ''), @left, @branch, @sequence, nullif(@chat, ''), @deprecate)`,
		pgx.NamedArgs{
			"id": op.ID, "session": session.ID, "kind": op.Kind, "caller": ownerID, "checkpoint": want.CheckpointID, "left": op.LeftID,
			"branch": goal.branchID, "sequence": goal.sequence, "chat": goal.chatID, "deprecate": deprecate,
		})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}

	if _, err := tx.Exec(ctx, `UPDATE sessions SET operation_id = $2 WHERE id = $1`, session.ID, op.ID); err != nil {
		return nil, err
	}

	return &op, tx.Emit(session.ID, "", domain.EventCheckpoint, left)
}

// leftLabels name what a session left a place for.
var leftLabels = map[domain.HistoryOperationKind]string{
	domain.OperationRewind: "Before a rewind",
	domain.OperationSwitch: "Before a change of branch",
	domain.OperationWhatif: "Before a what-if",
}

// standing answers a change to the branch on which the session stands already.
func standing(
	ctx context.Context,
	tx pgx.Tx,
	session sessions.Locked,
	active branchRow,
	checkpointID domain.CheckpointID,
) (*history.Moved, error) {
	done := &history.Moved{
		SessionID: session.ID, CheckpointID: &checkpointID, BranchID: active.ID, PreviousBranchID: active.ID,
		RemovedTurnIDs: []domain.TurnID{}, Files: history.RestoredFiles{Skipped: []history.SkippedFile{}},
	}
	err := tx.QueryRow(ctx, `SELECT `+lastOnBranch("$1", "9223372036854775807"), active.ID).Scan(&done.HeadTurnID)

	return done, err
}

// HistoryFiles gives the snapshots of an operation: to restore, and of what the
// session stood at. The first is empty when the files of that place were never
// captured.
func (s *Store) HistoryFiles(ctx context.Context, operationID string) (snapshot, left string, err error) {
	var (
		kind     domain.HistoryOperationKind
		branch   domain.BranchID
		sequence *int64
		asked    *string
	)

	err = s.db.Pool.QueryRow(ctx, `
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
		snapshot, err = filesBefore(ctx, s.db.Pool, branch, *sequence)
	default:
		snapshot, err = filesAtEnd(ctx, s.db.Pool, branch)
	}

	return snapshot, left, pg.Fault("read what is to be restored", err)
}

// FilesPending reports whether files of checkpoints of the operation's session are still to be
// captured or stored, in addition to those that the operation leaves.
func (s *Store) FilesPending(ctx context.Context, operationID string) (pending bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM history_operations o JOIN checkpoints k ON k.session_id = o.session_id
		               WHERE o.id = $1 AND k.state = 'pending' AND k.id <> o.left_id)`, operationID).Scan(&pending)

	return pending, pg.Fault("look for files that are not stored yet", err)
}

// filesBefore gives the snapshot of the files as they were before an entry of a
// branch came; empty when they were not captured.
func filesBefore(ctx context.Context, q pg.Queryer, branchID domain.BranchID, sequence int64) (string, error) {
	rows, _ := q.Query(ctx, `
		SELECT coalesce(k.snapshot_id, '') FROM `+transcript.SeenFrom("$1")+`
		CROSS  JOIN LATERAL (
			SELECT c.snapshot_id, c.sequence, c.id FROM checkpoints c
			WHERE  c.branch_id = seen.branch_id AND c.sequence < least(seen.upto, $2::bigint)
			ORDER  BY c.sequence DESC, c.id DESC LIMIT 1) k
		ORDER  BY k.sequence DESC, k.id DESC LIMIT 1`, branchID, sequence)

	return firstText(rows)
}

// filesAtEnd gives the snapshot of the files as they were when a branch was left.
func filesAtEnd(ctx context.Context, q pg.Queryer, branchID domain.BranchID) (string, error) {
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
