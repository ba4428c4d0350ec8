// Package history reads a session's history and performs rewinds, branch switches and
// what-ifs. It captures the files of checkpoints and restores them. The store decides
// what happens to the conversation; this package makes the files follow, and finishes a
// move that was begun. It knows neither transports nor engines nor how a chat runs.
package history

import (
	"context"
	"io"
	"time"

	"everloop/domain"
	"everloop/domain/history"
)

// Captures keep the checkpoints whose files are to be captured. Process names
// who does it; what a dead one held is free again after some seconds.
type Captures interface {
	// TakeCaptures gives those of a session that are due, but for those inHand;
	// with all, also those whose turns have tools left that will not run.
	TakeCaptures(ctx context.Context, sessionID domain.SessionID, process string, inHand []string, all bool) (history.DueCaptures, error)
	KeepCaptures(ctx context.Context, process string, ids []string) error
	LeaveCaptures(ctx context.Context, process string, ids []string) error
	// DelayCaptures says that the files cannot be stored for the time being: others do not
	// wait for them, and take them up once the lease has expired. With false another process
	// has, or the session is deleted.
	DelayCaptures(ctx context.Context, process string, ids []string, reason string) (held bool, err error)
	// RecordCaptures says what the recorded captures come after; nothing when another
	// process has taken them.
	RecordCaptures(ctx context.Context, process string, due history.DueCaptures, s history.Snapshot) (history.CaptureBase, error)
	FailCaptures(ctx context.Context, process string, ids []string, reason string) error
	ForgottenCaptures(ctx context.Context, age time.Duration, after string) ([]domain.SessionID, error)
	// CheckpointBytes says what the object store keeps of the checkpoints of a session,
	// and of all sessions and published apps of its owner.
	CheckpointBytes(ctx context.Context, sessionID domain.SessionID) (session, owner int64, err error)
	FileEvents
}

// FileEvents emits changes of files to the subscribers of a session.
type FileEvents interface {
	FilesChanged(ctx context.Context, sessionID domain.SessionID, changes []domain.FileChange) error
}

// Operations keep the moves of sessions: rewinds, changes of branch and what-ifs.
// Every write of an attempt that is not the latest one fails with
// domain.ErrFenced.
type Operations interface {
	ClaimHistory(ctx context.Context, ownerID string, want history.Request) (history.Claimed, error)
	AttemptHistory(ctx context.Context, operationID string) (history.Operation, error)
	CheckHistory(ctx context.Context, op history.Operation) error
	HistoryFiles(ctx context.Context, operationID string) (snapshot, left string, err error)
	// FilesPending says whether files of checkpoints of the operation's session are still to
	// be captured or stored, besides those that the operation leaves.
	FilesPending(ctx context.Context, operationID string) (bool, error)
	FinishHistory(ctx context.Context, op history.Operation, files history.RestoredFiles) (history.Moved, error)
	AbortHistory(ctx context.Context, op history.Operation, cause *domain.Error) error
	HistoryResult(ctx context.Context, operationID string) (moved history.Moved, done bool, err error)
	SessionRun(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.SessionRun, error)
	FileEvents
}

// Views read the past. The caller has authorised the reader.
type Views interface {
	Checkpoints(ctx context.Context, sessionID domain.SessionID) ([]history.Checkpoint, error)
	History(ctx context.Context, sessionID domain.SessionID) (history.History, error)
	CheckoutView(
		ctx context.Context,
		sessionID domain.SessionID,
		checkpointID domain.CheckpointID,
		position history.CheckoutPosition,
	) (history.CheckoutView, error)
	TurnsBefore(ctx context.Context, branchID domain.BranchID, before int64, yield func(domain.Turn) error) error
	CompareBranches(ctx context.Context, sessionID domain.SessionID, base, other domain.BranchID) (history.Comparison, error)
	// CheckpointSnapshot gives the snapshot of a checkpoint; empty: none was taken.
	CheckpointSnapshot(ctx context.Context, sessionID domain.SessionID, checkpointID domain.CheckpointID) (string, error)
}

// Files makes, restores and compares snapshots of workspaces.
type Files interface {
	// AwaitWrites waits until the writes into a workspace that were admitted before the
	// session was claimed have finished.
	AwaitWrites(ctx context.Context, sessionID domain.SessionID, sandboxUID int) error
	// Begin reads the workspace. When it returns, commands may write again.
	Begin(ctx context.Context, in CaptureIn) (Pending, error)
	// Restore makes a workspace what it was. It may be broken off at any point and
	// run again, which finishes it. current is the newest snapshot of it.
	Restore(ctx context.Context, in RestoreIn) (history.RestoredFiles, error)
	// Diff returns how to come from one snapshot to another, by path; "" is the
	// empty one.
	Diff(ctx context.Context, from, to string) ([]history.FileDifference, error)
	// Walk visits the files of a snapshot by path.
	Walk(ctx context.Context, snapshotID string, visit func(path string, size int64) error) error
	// Compare returns which files differ from those of a snapshot, by path.
	Compare(ctx context.Context, in CompareIn) ([]history.FileComparison, error)
	// Open opens a file of a snapshot; ctx holds for the reading too.
	Open(ctx context.Context, snapshotID, path string) (io.ReadSeekCloser, domain.FileInfo, error)
}

// CompareIn says what is compared.
type CompareIn struct {
	SessionID  domain.SessionID
	SandboxUID int
	From       string // a snapshot
	To         string // a later one; empty: the workspace as it is
}

// CaptureIn says what is captured.
type CaptureIn struct {
	SessionID  domain.SessionID
	SandboxUID int
	Previous   string // the snapshot to compare with; empty: none
	Busy       bool   // commands may be writing
}

// RestoreIn says what is restored.
type RestoreIn struct {
	SessionID  domain.SessionID
	SandboxUID int
	SnapshotID string
	Current    string // the newest snapshot of the workspace; empty: not known
	Back       bool   // what was there a moment ago is put back: no quota refuses it
}

// Pending is a snapshot that was read and is to be stored. After an error Finish
// may be tried again; Discard frees one that is given up.
type Pending interface {
	// Needs is the most that Finish will store, in bytes.
	Needs() int64
	Finish(ctx context.Context) (history.Snapshot, error)
	Discard()
}

// Runs starts the workflow of a move, and wakes the run of a session.
type Runs interface {
	// StartMove does nothing when the workflow of the operation is open.
	StartMove(ctx context.Context, op history.Operation) error
	Wake(ctx context.Context, s domain.SessionRun) error
}

// Tokens says what the agent's standing instructions cost: of the system prompt
// and of the tools that a session is offered, and for which model it counts.
type Tokens interface {
	Standing(ctx context.Context, session domain.Session) (system, tools int, model string, err error)
}
