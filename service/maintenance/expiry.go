package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
)

// ExpiredStore deletes unused sessions, for clients at once.
type ExpiredStore interface {
	DeleteExpired(ctx context.Context, class domain.SessionClass, age time.Duration, limit int) ([]domain.DeletedSession, error)
}

// Remover has what deleted sessions held removed. What it cannot start is started later.
type Remover interface {
	Remove(ctx context.Context, session domain.DeletedSession)
}

// How many sessions are deleted in one run of the job, and in one transaction.
const (
	maxExpired   = 500
	expiredBatch = 20
)

// ExpireSessions gives the function of a job that deletes the sessions of each class that
// were not used for the age of the class; those of a class without an age are kept.
func ExpireSessions(
	store ExpiredStore, remover Remover, ages map[domain.SessionClass]time.Duration, logger *slog.Logger,
) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var faults []error

		for class, age := range ages {
			if age <= 0 {
				continue
			}

			deleted, err := expire(ctx, store, remover, class, age)
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
	remover Remover,
	class domain.SessionClass,
	age time.Duration,
) (deleted int, err error) {
	for deleted < maxExpired {
		expired, err := store.DeleteExpired(ctx, class, age, expiredBatch)
		if err != nil {
			return deleted, err
		}

		for _, session := range expired {
			remover.Remove(ctx, session)
		}

		deleted += len(expired)

		if len(expired) == 0 {
			return deleted, nil
		}
	}

	return deleted, nil
}
