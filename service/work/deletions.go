package work

import (
	"context"
	"time"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/events"
	"everloop/infra/postgres/sessions"
	"everloop/infra/temporal"
	"everloop/internal/durable"
)

// Deletions are the activities that remove the content of deleted sessions. Every step can
// be repeated.
type Deletions struct {
	Sessions *sessions.Store
	Runs     temporal.Runs
	Log      *events.Log

	// OpenMoves lists the open operations on a session's history, and EndMoves fails them,
	// so that their attempts write nothing any longer.
	OpenMoves func(ctx context.Context, sessionID domain.SessionID) ([]string, error)
	EndMoves  func(ctx context.Context, sessionID domain.SessionID) error
	// StopServers ends the tool servers that were started for a session.
	StopServers func(ctx context.Context, sessionID domain.SessionID) error
	// RemoveFiles removes the workspace of a session, DeleteObjects the objects with a prefix.
	RemoveFiles   func(ctx context.Context, sessionID domain.SessionID) error
	DeleteObjects func(ctx context.Context, prefix string) error
}

// Register binds the activities to a worker.
func (d *Deletions) Register(w worker.ActivityRegistry) {
	contract.EndSessionWork.Handle(w, d.EndSessionWork)
	contract.RemoveSessionFiles.Handle(w, d.RemoveSessionFiles)
	contract.RemoveSessionRows.Handle(w, d.RemoveSessionRows)
}

// SessionPrefixes are the kinds of objects that belong to one session.
var SessionPrefixes = []string{"images/", "events/", "snapshots/", "archives/", "replays/", "imports/"}

// How long commands that were asked to stop are waited for before their files are
// removed, and how often that is looked at.
const (
	liveWorkTimeout = 20 * time.Second
	liveWorkPoll    = 200 * time.Millisecond
)

// EndSessionWork closes what still runs in the session. Commands were asked to stop
// when it was deleted; those that do not end in time are left to their leases.
func (d *Deletions) EndSessionWork(ctx context.Context, in contract.DeleteSessionInput) (struct{}, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	operations, err := d.OpenMoves(ctx, in.SessionID)
	if err != nil {
		return struct{}{}, err
	}

	if err := d.Runs.TerminateSession(ctx, in.SessionID, operations, "the session was deleted"); err != nil {
		return struct{}{}, err
	}

	if err := d.EndMoves(ctx, in.SessionID); err != nil {
		return struct{}{}, err
	}

	if err := d.StopServers(ctx, in.SessionID); err != nil {
		return struct{}{}, err
	}

	until, cancel := context.WithTimeout(ctx, liveWorkTimeout)
	defer cancel()

	for {
		n, err := d.Sessions.LiveWork(ctx, in.SessionID)
		if err != nil || n == 0 {
			return struct{}{}, err
		}

		select {
		case <-until.Done():
			return struct{}{}, ctx.Err()
		case <-time.After(liveWorkPoll):
		}
	}
}

// RemoveSessionFiles removes the workspace, the objects and the events of the session.
func (d *Deletions) RemoveSessionFiles(ctx context.Context, in contract.DeleteSessionInput) (struct{}, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	if err := d.RemoveFiles(ctx, in.SessionID); err != nil {
		return struct{}{}, err
	}

	for _, prefix := range SessionPrefixes {
		if err := d.DeleteObjects(ctx, prefix+string(in.SessionID)+"/"); err != nil {
			return struct{}{}, err
		}
	}

	return struct{}{}, d.Log.Forget(ctx, in.SessionID)
}

// RemoveSessionRows removes the session's rows, in small transactions.
func (d *Deletions) RemoveSessionRows(ctx context.Context, in contract.DeleteSessionInput) (struct{}, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	return struct{}{}, d.Sessions.PurgeSession(ctx, in.SessionID)
}
