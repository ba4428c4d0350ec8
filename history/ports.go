// Package history moves sessions in their past: it captures the files of
// checkpoints, takes a session back to one, from one branch to another, or from
// a step on anew, and shows what was. What happens to the conversation is decided
// in the records; this package sees to it that the files follow, and that a move
// which was begun is finished. It knows neither transports nor engines nor how a
// chat runs.
package history

import (
	"context"
	"time"

	"everloop/domain"
)

// Captures keep the checkpoints whose files are to be captured. Process names
// who does it; what a dead one held is free again after some seconds.
type Captures interface {
	// TakeCaptures gives those of a session that are due, but for those inHand;
	// with all, also those whose turns have tools left that will not run.
	TakeCaptures(ctx context.Context, sessionID, process string, inHand []string, all bool) (domain.DueCaptures, error)
	KeepCaptures(ctx context.Context, process string, ids []string) error
	LeaveCaptures(ctx context.Context, process string, ids []string) error
	RecordCaptures(ctx context.Context, ids []string, s domain.Snapshot) error
	FailCaptures(ctx context.Context, ids []string, reason string) error
	ForgottenCaptures(ctx context.Context, age time.Duration) ([]string, error)
}

// Operations keep the moves of sessions.
type Operations interface {
	ClaimHistory(ctx context.Context, ownerID, process string, want domain.HistoryRequest) (domain.ClaimedHistory, error)
	KeepHistory(ctx context.Context, process, operationID string) error
	TakeHistory(ctx context.Context, process string) ([]domain.HistoryOperation, error)
	HistoryFiles(ctx context.Context, operationID string) (snapshot, left string, err error)
	FinishHistory(ctx context.Context, op domain.HistoryOperation, files domain.RestoredFiles) (domain.MovedHistory, error)
	AbortHistory(ctx context.Context, op domain.HistoryOperation, code, message string) error
	SessionRun(ctx context.Context, ownerID, sessionID string) (domain.SessionRun, error)
}

// Views read the past. The caller has authorised the reader.
type Views interface {
	Checkpoints(ctx context.Context, sessionID string) ([]domain.Checkpoint, error)
	History(ctx context.Context, sessionID string) (domain.History, error)
	CheckoutView(ctx context.Context, sessionID, checkpointID string, position domain.CheckoutPosition) (domain.CheckoutView, error)
	TurnsBefore(ctx context.Context, branchID string, before int64, yield func(domain.Turn) error) error
	CompareBranches(ctx context.Context, sessionID, base, other string) (domain.Comparison, error)
}

// Files makes, restores and compares snapshots of workspaces.
type Files interface {
	// Begin reads the workspace. When it returns, commands may write again.
	Begin(ctx context.Context, in CaptureIn) (Pending, error)
	// Restore makes a workspace what it was. It may be broken off at any point and
	// run again, which finishes it. current is the newest snapshot of it.
	Restore(ctx context.Context, in RestoreIn) (domain.RestoredFiles, error)
	// Diff tells how to come from one snapshot to another, by path; "" is the
	// empty one.
	Diff(ctx context.Context, from, to string) ([]domain.FileDifference, error)
	// Walk visits the files of a snapshot by path.
	Walk(ctx context.Context, snapshotID string, visit func(path string, size int64) error) error
}

// CaptureIn says what is captured.
type CaptureIn struct {
	SessionID  string
	SandboxUID int
	Previous   string // the snapshot to compare with; empty: none
	Busy       bool   // commands may be writing
}

// RestoreIn says what is restored.
type RestoreIn struct {
	SessionID  string
	SandboxUID int
	SnapshotID string
	Current    string // the newest snapshot of the workspace; empty: not known
}

// Pending is a snapshot that was read and is to be stored. After an error Finish
// may be tried again; Discard frees one that is given up.
type Pending interface {
	Finish(ctx context.Context) (domain.Snapshot, error)
	Discard()
}

// Runs wakes the run of a session.
type Runs interface {
	Wake(ctx context.Context, s domain.SessionRun) error
}

// Tokens says what the agent's standing instructions cost: of the system prompt
// and of the tools that a session is offered, and for which model it counts.
type Tokens interface {
	Standing(ctx context.Context, session domain.Session) (system, tools int, model string, err error)
}
