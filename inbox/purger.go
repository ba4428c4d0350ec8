package inbox

import (
	"context"
	"errors"
	"log/slog"
)

// Purger deletes sessions: they are gone for clients at once, and with
// everything that they hold soon after. A purge that a crash cuts short is taken
// up again by the Janitor.
type Purger struct {
	Records PurgeRecords
	Runs    interface {
		TerminateSession(ctx context.Context, sessionID, reason string) error
	}
	Log interface {
		Forget(ctx context.Context, sessionID string) error
	}
	Files interface {
		Remove(ctx context.Context, sessionID string) error
	}
	Objects interface {
		DeletePrefix(ctx context.Context, prefix string) error
	}
	Tasks interface {
		StopAll(ctx context.Context, sessionID string) error
	}
	ToolServers interface {
		SessionDeleted(ctx context.Context, sessionID string) error
	}
	Desk   *Desk
	Logger *slog.Logger
}

// PurgeRecords are the records of deleted sessions.
type PurgeRecords interface {
	DeleteSession(ctx context.Context, sessionID string) error
	DeletedSessions(ctx context.Context) ([]string, error)
	PurgeSession(ctx context.Context, sessionID string) error
}

// DeleteSession ends whatever runs in the session and removes it. The caller
// owns it.
func (p *Purger) DeleteSession(ctx context.Context, sessionID string) error {
	stopped, err := p.Desk.Records.RequestStop(ctx, "", sessionID, true)
	if err != nil {
		return err
	}
	if err := p.Tasks.StopAll(ctx, sessionID); err != nil {
		return err
	}
	if err := p.Records.DeleteSession(ctx, sessionID); err != nil {
		return err
	}
	p.Desk.afterwards(ctx, func(ctx context.Context) {
		if stopped.ChatID != "" {
			p.Desk.tellStop(ctx, sessionID, stopped.ChatID)
		}
		if err := p.purge(ctx, sessionID); err != nil {
			p.Logger.Warn("deleted session not removed yet; the janitor will", "session_id", sessionID, "error", err)
		}
	})
	return nil
}

// Sweep removes what deleted sessions have left.
func (p *Purger) Sweep(ctx context.Context) error {
	sessions, err := p.Records.DeletedSessions(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range sessions {
		failed = append(failed, p.purge(ctx, id))
	}
	return errors.Join(failed...)
}

// purge goes from the outside in, so that the rows, by which it is found again,
// go last.
func (p *Purger) purge(ctx context.Context, sessionID string) error {
	for _, step := range []func() error{
		func() error { return p.Runs.TerminateSession(ctx, sessionID, "the session was deleted") },
		func() error { return p.ToolServers.SessionDeleted(ctx, sessionID) },
		func() error { return p.Files.Remove(ctx, sessionID) },
		func() error { return p.Objects.DeletePrefix(ctx, "images/"+sessionID+"/") },
		func() error { return p.Objects.DeletePrefix(ctx, "events/"+sessionID+"/") },
		func() error { return p.Objects.DeletePrefix(ctx, "snapshots/"+sessionID+"/") },
		func() error { return p.Objects.DeletePrefix(ctx, "archives/"+sessionID+"/") },
		func() error { return p.Objects.DeletePrefix(ctx, "replays/"+sessionID+"/") },
		func() error { return p.Log.Forget(ctx, sessionID) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return p.Records.PurgeSession(ctx, sessionID)
}
