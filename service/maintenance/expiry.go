package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
)

// ExpiredStore finds unused sessions.
type ExpiredStore interface {
	ExpiredSessions(ctx context.Context, class domain.SessionClass, age time.Duration, limit int) ([]domain.SessionID, error)
}

// Deleter deletes sessions for good.
type Deleter interface {
	DeleteSession(ctx context.Context, sessionID domain.SessionID) error
}

// How many sessions are deleted in one run of the job, and are looked for at once: the
// time between the look and the deletion is to be short.
const (
	mostExpired  = 500
	expiredBatch = 20
)

// ExpireSessions gives the function of a job that deletes the sessions of each class that
// were not used for the age of the class; those of a class without an age are kept.
func ExpireSessions(
	store ExpiredStore, deleter Deleter, ages map[domain.SessionClass]time.Duration, logger *slog.Logger,
) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var faults []error

		for class, age := range ages {
			if age <= 0 {
				continue
			}

			deleted, err := expire(ctx, store, deleter, class, age)
			if deleted > 0 {
				logger.Info("deleted unused sessions", "class", class, "count", deleted)
			}

			faults = append(faults, err)
		}

		return errors.Join(faults...)
	}
}

func expire(
	ctx context.Context,
	store ExpiredStore,
	deleter Deleter,
	class domain.SessionClass,
	age time.Duration,
) (deleted int, err error) {
	for deleted < mostExpired {
		expired, err := store.ExpiredSessions(ctx, class, age, expiredBatch)
		if err != nil {
			return deleted, err
		}

		for _, id := range expired {
			if err := deleter.DeleteSession(ctx, id); err != nil && !domain.HasCode(err, domain.CodeSessionNotFound) {
				return deleted, err
			}

			deleted++
		}

		if len(expired) == 0 {
			return deleted, nil
		}
	}

	return deleted, nil
}
