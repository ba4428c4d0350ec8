package work

import (
	"context"

	"everloop/domain"
)

// StopClosedSessions returns the function of a job that stops the chats of closed accounts,
// those that wait for input included, and cancels their queued messages.
func StopClosedSessions(
	store *Store,
	stop func(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, andQueue bool) (bool, error),
) func(ctx context.Context) error {
	sessions := walk[domain.ClosedSession]{
		list: store.ClosedSessions, key: func(s domain.ClosedSession) string { return string(s.ID) },
	}

	return func(ctx context.Context) error {
		return sessions.each(ctx, maxConcurrent, func(ctx context.Context, s domain.ClosedSession) error {
			_, err := stop(ctx, domain.Caller{User: domain.User{ID: s.OwnerID}}, s.ID, true)
			if domain.HasCode(err, domain.CodeSessionNotFound) {
				return nil // deleted in the meantime
			}

			return err
		})
	}
}
