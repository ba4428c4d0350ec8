package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
)

// SessionDeleter deletes sessions: each is gone for clients at once, and a workflow
// then removes what it held.
type SessionDeleter struct {
	store  DeletedStore
	tasks  TaskStopper
	bus    StopBus
	runs   DeletionRuns
	logger *slog.Logger
}

// DeletedStore keeps which sessions are deleted.
type DeletedStore interface {
	RequestStop(ctx context.Context, ownerID string, sessionID domain.SessionID, andQueue bool) (domain.Stopped, error)
	SessionRun(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.SessionRun, error)
	DeleteSession(ctx context.Context, sessionID domain.SessionID) error
}

// TaskStopper stops the background tasks of a session.
type TaskStopper interface {
	StopAll(ctx context.Context, sessionID domain.SessionID) error
}

// StopBus announces to running work that its chat was stopped.
type StopBus interface {
	AnnounceStop(ctx context.Context, chatID domain.ChatID, attempt int) error
}

// DeletionRuns starts the workflows that remove sessions; starting one that runs
// changes nothing.
type DeletionRuns interface {
	StartDeletion(ctx context.Context, session domain.DeletedSession) error
}

// NewSessionDeleter checks that everything is there.
func NewSessionDeleter(
	store DeletedStore,
	tasks TaskStopper,
	bus StopBus,
	runs DeletionRuns,
	logger *slog.Logger,
) (*SessionDeleter, error) {
	if store == nil || tasks == nil || bus == nil || runs == nil || logger == nil {
		return nil, errors.New("maintenance: the session deleter needs a store, tasks, a bus, runs and a logger")
	}

	return &SessionDeleter{store: store, tasks: tasks, bus: bus, runs: runs, logger: logger}, nil
}

const (
	// startAge is how long the start of a deletion may take before it is repeated.
	startAge = 10 * time.Second
	// startTimeout bounds what follows a deletion that was already promised.
	startTimeout = 30 * time.Second
)

// DeleteSession stops what runs in the session and deletes it. The caller is authorised.
func (d *SessionDeleter) DeleteSession(ctx context.Context, sessionID domain.SessionID) error {
	run, err := d.store.SessionRun(ctx, "", sessionID)
	if err != nil {
		return err
	}

	stopped, err := d.store.RequestStop(ctx, "", sessionID, true)
	if err != nil {
		return err
	}

	if err := d.tasks.StopAll(ctx, sessionID); err != nil {
		return err
	}

	if err := d.store.DeleteSession(ctx, sessionID); err != nil {
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
		if err := d.bus.AnnounceStop(ctx, chatID, 0); err != nil {
			d.logger.Warn(
				"failed to announce the stop of a deleted session",
				"session_id",
				deleted.SessionID,
				"chat_id",
				chatID,
				"error",
				err,
			)
		}
	}

	d.Remove(ctx, deleted)
}

// Remove starts the workflow that removes what a deleted session held. It may fail: the
// reconciler starts it later.
func (d *SessionDeleter) Remove(ctx context.Context, deleted domain.DeletedSession) {
	if err := d.runs.StartDeletion(ctx, deleted); err != nil {
		d.logger.Warn("failed to start the removal of a deleted session, retrying", "session_id", deleted.SessionID, "error", err)
	}
}
