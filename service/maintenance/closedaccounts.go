package maintenance

import (
	"context"

	"everloop/domain"
)

// ClosedAccountStore lists sessions with unfinished work whose owner's account is closed.
type ClosedAccountStore interface {
	ClosedSessions(ctx context.Context, after string, limit int) ([]domain.ClosedSession, error)
}

// ChatStopper stops the chats of a session and cancels its queue.
type ChatStopper interface {
	Stop(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, andQueue bool) (bool, error)
}

// StopClosedSessions returns the function of a job that stops the chats of closed accounts,
// those that wait for input included, and cancels their queued messages.
func StopClosedSessions(store ClosedAccountStore, chats ChatStopper) func(ctx context.Context) error {
	sessions := walk[domain.ClosedSession]{
		list: store.ClosedSessions, key: func(s domain.ClosedSession) string { return string(s.ID) },
	}

	return func(ctx context.Context) error {
		return sessions.each(ctx, maxConcurrent, func(ctx context.Context, s domain.ClosedSession) error {
			_, err := chats.Stop(ctx, domain.Caller{User: domain.User{ID: s.OwnerID}}, s.ID, true)
			if domain.HasCode(err, domain.CodeSessionNotFound) {
				return nil // deleted in the meantime
			}

			return err
		})
	}
}
