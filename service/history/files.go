// Package history reads a session's history and performs rewinds, branch switches and
// what-ifs. It captures the files of checkpoints and restores them, and finishes moves that
// a crash interrupted. domain/history decides whether a session can be moved, and where to;
// Store writes it. The package does not depend on transports, nor on how a chat runs.
package history

import (
	"context"
	"io"

	"everloop/domain"
	"everloop/domain/history"
)

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

// Pending is a snapshot that was read and must be stored. After an error Finish
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
