package work

import (
	"context"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/infra/events"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/sessions"
)

// SessionDeleterConfig is what NewSessionDeleter needs; all of it is required.
type SessionDeleterConfig struct {
	Chats    *conversation.Store
	Sessions *sessions.Store
	Signals  *events.Signals
	// StopTasks stops the background tasks of a session.
	StopTasks func(ctx context.Context, sessionID domain.SessionID) error
	// Start starts the workflow that removes a session, unless it runs.
	Start  func(ctx context.Context, session domain.DeletedSession) error
	Logger *slog.Logger
}

// SessionDeleter deletes sessions: each is deleted for clients immediately, and a workflow
// then removes its content.
type SessionDeleter struct{ cfg SessionDeleterConfig }

// NewSessionDeleter returns a deleter of sessions.
func NewSessionDeleter(cfg SessionDeleterConfig) *SessionDeleter { return &SessionDeleter{cfg} }

// startTimeout bounds what follows a deletion that was already promised.
const startTimeout = 30 * time.Second

// DeleteSession stops what runs in the session and deletes it. The caller is authorised.
func (d *SessionDeleter) DeleteSession(ctx context.Context, sessionID domain.SessionID) error {
	run, err := d.cfg.Chats.SessionRun(ctx, "", sessionID)
	if err != nil {
		return err
	}

	stopped, err := d.cfg.Chats.RequestStop(ctx, "", sessionID, true)
	if err != nil {
		return err
	}

	if err := d.cfg.StopTasks(ctx, sessionID); err != nil {
		return err
	}

	if err := d.cfg.Sessions.DeleteSession(ctx, sessionID); err != nil {
		return err
	}

	deleted := domain.DeletedSession{SessionID: sessionID, OwnerID: run.OwnerID}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	go func() {
		defer cancel()

		d.start(ctx, deleted, stopped.ChatID)
	}()

	return nil
}

// start may fail: the reconciler starts the workflow later, and the run is terminated by it.
func (d *SessionDeleter) start(ctx context.Context, deleted domain.DeletedSession, chatID domain.ChatID) {
	if chatID != "" {
		if err := d.cfg.Signals.AnnounceStop(ctx, chatID, 0); err != nil {
			d.cfg.Logger.Warn("failed to announce the stop of a deleted session",
				"session_id", deleted.SessionID, "chat_id", chatID, "error", err)
		}
	}

	d.Remove(ctx, deleted)
}

// Remove starts the workflow that removes what a deleted session held. It may fail: the
// reconciler starts it later.
func (d *SessionDeleter) Remove(ctx context.Context, deleted domain.DeletedSession) {
	if err := d.cfg.Start(ctx, deleted); err != nil {
		d.cfg.Logger.Warn("failed to start the removal of a deleted session, retrying", "session_id", deleted.SessionID, "error", err)
	}
}
