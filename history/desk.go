package history

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"everloop/domain"
)

// Desk is where a session's past is looked at, and where it is gone back to. A
// move is claimed in the records before anything is done. From then on no chat
// begins in the session until the move is finished or given up, by this process
// or by the one that finds it dead (decisions.md section 5).
type Desk struct {
	Records interface {
		Operations
		Views
	}
	Captures *Capturer
	Files    Files
	Runs     Runs
	Tokens   Tokens // nil: nothing is counted
	Logger   *slog.Logger

	inHand sync.Map // ids of operations that this process carries out
}

// Rewind takes a session back to a checkpoint, conversation and files, on a new
// branch. What was stays reachable by the checkpoint that the answer names.
func (d *Desk) Rewind(ctx context.Context, owner domain.User, sessionID, checkpointID string) (domain.MovedHistory, error) {
	return d.move(ctx, owner, domain.HistoryRequest{Kind: domain.OperationRewind, SessionID: sessionID, CheckpointID: checkpointID})
}

// SwitchBranch takes a session to the newest end of the branch that a
// checkpoint's turn is on, conversation and files.
func (d *Desk) SwitchBranch(ctx context.Context, owner domain.User, sessionID, checkpointID string) (domain.MovedHistory, error) {
	return d.move(ctx, owner, domain.HistoryRequest{Kind: domain.OperationSwitch, SessionID: sessionID, CheckpointID: checkpointID})
}

func (d *Desk) move(ctx context.Context, owner domain.User, want domain.HistoryRequest) (domain.MovedHistory, error) {
	claimed, err := d.Records.ClaimHistory(ctx, owner.ID, d.Captures.Process, want)
	switch {
	case err != nil:
		return domain.MovedHistory{}, err
	case claimed.Done != nil:
		return *claimed.Done, nil
	}
	type outcome struct {
		moved domain.MovedHistory
		err   error
	}
	over := make(chan outcome, 1)
	go func() { // it is claimed: whoever asked going away does not end it
		moved, err := d.carryOut(context.WithoutCancel(ctx), *claimed.Operation)
		over <- outcome{moved, err}
	}()
	select {
	case out := <-over:
		return out.moved, out.err
	case <-ctx.Done():
		return domain.MovedHistory{}, ctx.Err()
	}
}

// Whatif makes a message durable that runs on from a step of the active branch.
// Its chat begins when the files are what they were after the step.
func (d *Desk) Whatif(ctx context.Context, owner domain.User, send domain.Send) (domain.SendAck, error) {
	claimed, err := d.Records.ClaimHistory(ctx, owner.ID, d.Captures.Process, domain.HistoryRequest{
		Kind: domain.OperationWhatif, SessionID: send.SessionID, Send: &send,
	})
	if err != nil || claimed.Operation == nil { // it was sent before
		return claimed.Ack, err
	}
	go func() {
		if _, err := d.carryOut(context.WithoutCancel(ctx), *claimed.Operation); err != nil {
			d.Logger.Warn("a what-if could not be begun", "session_id", send.SessionID, "chat_id", claimed.Ack.ChatID, "error", err)
		}
	}()
	return claimed.Ack, nil
}

// keepEvery is how often a process says that it still carries a move out.
const keepEvery = 1500 * time.Millisecond

// carryOut does what was claimed, from wherever an earlier try has come: what was
// is captured, the files are restored, the conversation moves.
func (d *Desk) carryOut(ctx context.Context, op domain.HistoryOperation) (domain.MovedHistory, error) {
	d.inHand.Store(op.ID, true)
	defer d.inHand.Delete(op.ID)
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	go func() {
		for pause(ctx, keepEvery) == nil {
			if err := d.Records.KeepHistory(ctx, d.Captures.Process, op.ID); errors.Is(err, domain.ErrFenced) {
				cancel() // somebody else does it
			}
		}
	}()
	files, err := d.restore(ctx, op)
	if err != nil {
		return domain.MovedHistory{}, d.giveUp(ctx, op, err)
	}
	moved, err := d.Records.FinishHistory(ctx, op, files)
	if err != nil {
		return moved, err // it stays claimed, and Sweep finishes it
	}
	d.wake(ctx, op.SessionID)
	return moved, nil
}

// wake lets a queued message begin, and a run close whose question is gone.
func (d *Desk) wake(ctx context.Context, sessionID string) {
	run, err := d.Records.SessionRun(ctx, "", sessionID)
	if err == nil {
		err = d.Runs.Wake(ctx, run)
	}
	if err != nil {
		d.Logger.Warn("run not woken yet; the janitor will", "session_id", sessionID, "error", err)
	}
}

// errNotLeft says that what the session stands at could not be kept, so that it
// is not left.
var errNotLeft = domain.Newf(domain.Unavailable, "snapshot_failed", "the files as they are now could not be captured; nothing was changed")

// errNotKept says that the files of a place cannot be had. A what-if promises
// them, and has no answer that could tell of it.
var errNotKept = domain.Newf(domain.Unavailable, "snapshot_lost", "the files of this step were not captured or cannot be had any more; nothing was changed")

// restore captures the files as they are and makes them what they were.
func (d *Desk) restore(ctx context.Context, op domain.HistoryOperation) (domain.RestoredFiles, error) {
	if err := d.Captures.Flush(ctx, op.SessionID); err != nil {
		return domain.RestoredFiles{}, err
	}
	snapshot, left, err := d.Records.HistoryFiles(ctx, op.ID)
	switch {
	case err != nil:
		return domain.RestoredFiles{}, err
	case left == "":
		return domain.RestoredFiles{}, errNotLeft
	case snapshot == "":
		return filesLost(op, "the files of this checkpoint were not captured")
	}
	in := RestoreIn{SessionID: op.SessionID, SandboxUID: op.SandboxUID, SnapshotID: snapshot, Current: left}
	files, err := d.Files.Restore(ctx, in)
	if err == nil {
		return files, nil
	}
	switch domain.AsError(err).Code {
	case "snapshot_damaged", "snapshot_not_found":
		d.Logger.Error("the files of a checkpoint cannot be had any more", "session_id", op.SessionID, "error", err)
		return filesLost(op, "the files of this checkpoint cannot be had any more")
	}
	return files, err
}

// filesLost says that the conversation goes back without its files.
func filesLost(op domain.HistoryOperation, why string) (domain.RestoredFiles, error) {
	if op.Kind == domain.OperationWhatif {
		return domain.RestoredFiles{}, errNotKept
	}
	return domain.RestoredFiles{Skipped: []domain.SkippedFile{{Path: ".", Reason: why}}}, nil
}

// giveUp leaves the session as it was, files included. What cannot even be put
// back stays claimed, and Sweep tries again.
func (d *Desk) giveUp(ctx context.Context, op domain.HistoryOperation, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	_, left, err := d.Records.HistoryFiles(ctx, op.ID)
	if err == nil && left != "" {
		_, err = d.Files.Restore(ctx, RestoreIn{SessionID: op.SessionID, SandboxUID: op.SandboxUID, SnapshotID: left, Current: left})
	}
	if err == nil {
		e := domain.AsError(cause)
		err = d.Records.AbortHistory(ctx, op, e.Code, e.Message)
	}
	if err != nil {
		d.Logger.Error("a session could not be moved and is held until it can", "session_id", op.SessionID, "error", errors.Join(cause, err))
		return cause
	}
	d.Logger.Warn("a session could not be moved and stays where it was", "session_id", op.SessionID, "kind", op.Kind, "error", cause)
	d.wake(ctx, op.SessionID)
	return cause
}

// sweepEvery is how often what a dead process has left is looked for.
const sweepEvery = time.Second

// Run finishes what processes that died have left, until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	for pause(ctx, sweepEvery) == nil {
		if err := d.Sweep(ctx); err != nil && ctx.Err() == nil {
			d.Logger.Warn("what was left of moves and checkpoints is not seen to yet", "error", err)
		}
	}
}

// Sweep takes up moves and captures whose process died. It does not wait for
// their end.
func (d *Desk) Sweep(ctx context.Context) error {
	ops, err := d.Records.TakeHistory(ctx, d.Captures.Process)
	for _, op := range ops {
		if _, here := d.inHand.Load(op.ID); here {
			continue // it was only slow to say so
		}
		d.Logger.Warn("a move of a session is taken up again", "session_id", op.SessionID, "kind", op.Kind)
		go func() {
			if _, err := d.carryOut(context.WithoutCancel(ctx), op); err != nil {
				d.Logger.Warn("a move of a session is not finished", "session_id", op.SessionID, "error", err)
			}
		}()
	}
	return errors.Join(err, d.Captures.Sweep(ctx))
}
