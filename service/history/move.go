package history

import (
	"context"
	"errors"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/internal/fencing"
)

// Move carries out an operation as one attempt of its workflow: it captures the
// files as they are, restores those of the goal and moves the conversation. It may
// be broken off at any point and run again. The error of an operation that was
// aborted is not returned: its state is failed then.
func (d *Service) Move(ctx context.Context, operationID string) (history.State, error) {
	op, err := d.AttemptHistory(ctx, operationID)
	if err != nil {
		return "", err
	}

	if op.State != history.StateRunning {
		d.wake(ctx, op.SessionID) // the attempt before may have ended between its commit and this
		return op.State, nil
	}

	ctx, release := d.fence(ctx, op)
	defer release()

	// An acknowledged write is captured before it is replaced.
	if err := d.cfg.Files.AwaitWrites(ctx, op.SessionID, op.SandboxUID); err != nil {
		return op.State, fencing.Cause(ctx, err)
	}

	files, err := d.restore(ctx, op)
	if err != nil {
		return d.giveUp(ctx, op, err)
	}

	if _, err := d.FinishHistory(ctx, op, files); err != nil {
		return op.State, fencing.Cause(ctx, err)
	}

	d.emitMoved(ctx, op)
	d.wake(ctx, op.SessionID)

	return history.StateDone, nil
}

// Abort leaves the session of an operation as it was, files included, when an
// operator has cancelled its workflow.
func (d *Service) Abort(ctx context.Context, operationID, reason string) (history.State, error) {
	op, err := d.AttemptHistory(ctx, operationID)
	if err != nil || op.State != history.StateRunning {
		return op.State, err
	}

	ctx, release := d.fence(ctx, op)
	defer release()

	return d.giveUp(ctx, op, domain.Newf(domain.Unavailable, "history_not_changed", "%s", reason))
}

// fence returns a context that is cancelled with domain.ErrFenced once another
// attempt may have started.
func (d *Service) fence(ctx context.Context, op history.Operation) (context.Context, func()) {
	return fencing.Guard(ctx, domain.ErrFenced, func(ctx context.Context) error { return d.CheckHistory(ctx, op) })
}

// wake lets a queued message start, and a run close whose question is gone.
func (d *Service) wake(ctx context.Context, sessionID domain.SessionID) {
	run, err := d.chats.SessionRun(ctx, "", sessionID)
	if err == nil {
		err = d.cfg.Runs.Wake(ctx, run)
	}

	if err != nil {
		d.cfg.Logger.Warn("failed to wake the run of a session; it will be retried", "session_id", sessionID, "error", err)
	}
}

// errNotLeft is the error of a move before which the files as they are could not
// be captured.
var errNotLeft = domain.Newf(domain.Unavailable, "snapshot_failed", "the files as they are now could not be captured; nothing was changed")

// errNotStored is the error of a move to files that an outage of the object store keeps
// waiting: a later one finds them.
var errNotStored = domain.Newf(domain.Unavailable, "snapshot_failed",
	"the files of the checkpoint are not stored yet; nothing was changed")

// errNotKept is the error of a what-if whose files are lost: its acknowledgement
// was given, and has no room for a list of skipped files.
var errNotKept = domain.Newf(domain.Unavailable, "snapshot_lost", "the files of this step were not captured or cannot be had any more; "+
	"nothing was changed")

// restore captures the files as they are and makes them what they were.
func (d *Service) restore(ctx context.Context, op history.Operation) (history.RestoredFiles, error) {
	if err := d.Flush(ctx, op.SessionID); err != nil {
		return history.RestoredFiles{}, err
	}

	snapshot, left, err := d.HistoryFiles(ctx, op.ID)
	switch {
	case err != nil:
		return history.RestoredFiles{}, err
	case left == "":
		return history.RestoredFiles{}, errNotLeft
	case snapshot == "":
		pending, err := d.FilesPending(ctx, op.ID)
		if err != nil {
			return history.RestoredFiles{}, err
		}

		if pending {
			return history.RestoredFiles{}, errNotStored
		}

		return filesLost(op, "the files of this checkpoint were not captured")
	}

	in := RestoreIn{SessionID: op.SessionID, SandboxUID: op.SandboxUID, SnapshotID: snapshot, Current: left}

	files, err := d.cfg.Files.Restore(ctx, in)
	if err == nil {
		return files, nil
	}

	switch domain.AsError(err).Code {
	case "snapshot_damaged", "snapshot_not_found":
		d.cfg.Logger.Error("failed to read the files of a checkpoint", "session_id", op.SessionID, "error", err)
		return filesLost(op, "the files of this checkpoint cannot be had any more")
	}

	return files, err
}

// filesLost lets the conversation go back without its files, except for a what-if.
func filesLost(op history.Operation, why string) (history.RestoredFiles, error) {
	if op.Kind == domain.OperationWhatif {
		return history.RestoredFiles{}, errNotKept
	}

	return history.RestoredFiles{Skipped: []history.SkippedFile{{Path: ".", Reason: why}}}, nil
}

// giveUp leaves the session as it was, files included, and aborts the operation.
// When the files cannot even be put back, it returns the error: the session stays
// claimed and the attempt is retried.
func (d *Service) giveUp(ctx context.Context, op history.Operation, cause error) (history.State, error) {
	if ctx.Err() != nil {
		return op.State, fencing.Cause(ctx, cause)
	}

	_, left, err := d.HistoryFiles(ctx, op.ID)
	if err == nil && left != "" {
		_, err = d.cfg.Files.Restore(
			ctx,
			RestoreIn{SessionID: op.SessionID, SandboxUID: op.SandboxUID, SnapshotID: left, Current: left, Back: true},
		)
	}

	if err == nil {
		err = d.AbortHistory(ctx, op, domain.AsError(cause))
	}

	if err != nil {
		err = fencing.Cause(ctx, errors.Join(cause, err))
		d.cfg.Logger.Error("failed to move a session and to leave it as it was; retrying",
			"session_id", op.SessionID, "operation_id", op.ID, "kind", op.Kind, "error", err)

		return op.State, err
	}

	d.cfg.Logger.Warn(
		"failed to move a session; it is as it was",
		"session_id",
		op.SessionID,
		"operation_id",
		op.ID,
		"kind",
		op.Kind,
		"error",
		cause,
	)
	d.wake(ctx, op.SessionID)

	return history.StateFailed, nil
}
