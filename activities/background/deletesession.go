package background

import (
	"context"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Deletions removes what deleted sessions held. Every step may be run again.
type Deletions struct {
	Rows        SessionRows
	Moves       SessionMoves
	Runs        SessionRuns
	ToolServers SessionToolServers
	Files       SessionFiles
	Objects     SessionObjects
	Log         SessionLog
}

// SessionRows are a session's rows in the database.
type SessionRows interface {
	LiveWork(ctx context.Context, sessionID domain.SessionID) (int, error)
	PurgeSession(ctx context.Context, sessionID domain.SessionID) error
}

// SessionMoves are the operations on the session's history.
type SessionMoves interface {
	// RunningHistory lists the running operations.
	RunningHistory(ctx context.Context, sessionID domain.SessionID) ([]string, error)
	// EndHistory fails the running operations, so that their attempts write nothing more.
	EndHistory(ctx context.Context, sessionID domain.SessionID) error
}

// SessionRuns are the runs of a session.
type SessionRuns interface {
	// TerminateSession closes those of its chats, replay and import, and of the given
	// operations on its history.
	TerminateSession(ctx context.Context, sessionID domain.SessionID, operations []string, reason string) error
}

// SessionToolServers are the tool servers that were started for a session.
type SessionToolServers interface {
	SessionDeleted(ctx context.Context, sessionID domain.SessionID) error
}

// SessionFiles are the workspaces of sessions.
type SessionFiles interface {
	Remove(ctx context.Context, sessionID domain.SessionID) error
}

// SessionObjects are the objects of sessions, below a prefix of each kind.
type SessionObjects interface {
	DeletePrefix(ctx context.Context, prefix string) error
}

// SessionLog is the event log.
type SessionLog interface {
	Forget(ctx context.Context, sessionID domain.SessionID) error
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

	operations, err := d.Moves.RunningHistory(ctx, in.SessionID)
	if err != nil {
		return struct{}{}, err
	}

	if err := d.Runs.TerminateSession(ctx, in.SessionID, operations, "the session was deleted"); err != nil {
		return struct{}{}, err
	}

	if err := d.Moves.EndHistory(ctx, in.SessionID); err != nil {
		return struct{}{}, err
	}

	if err := d.ToolServers.SessionDeleted(ctx, in.SessionID); err != nil {
		return struct{}{}, err
	}

	until, cancel := context.WithTimeout(ctx, liveWorkTimeout)
	defer cancel()

	for {
		n, err := d.Rows.LiveWork(ctx, in.SessionID)
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

	if err := d.Files.Remove(ctx, in.SessionID); err != nil {
		return struct{}{}, err
	}

	for _, prefix := range SessionPrefixes {
		if err := d.Objects.DeletePrefix(ctx, prefix+string(in.SessionID)+"/"); err != nil {
			return struct{}{}, err
		}
	}

	return struct{}{}, d.Log.Forget(ctx, in.SessionID)
}

// RemoveSessionRows removes the session's rows, in small transactions.
func (d *Deletions) RemoveSessionRows(ctx context.Context, in contract.DeleteSessionInput) (struct{}, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	return struct{}{}, d.Rows.PurgeSession(ctx, in.SessionID)
}
