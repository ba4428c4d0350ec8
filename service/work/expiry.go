package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/infra/postgres/sessions"
)

// How many sessions are deleted in one run of the job, and in one transaction.
const (
	maxExpired   = 500
	expiredBatch = 20
)

// ExpireSessions returns the function of a job that deletes the sessions of each class that
// were not used for the age of the class; those of a class without an age are kept.
func ExpireSessions(
	store *sessions.Store, deleter *SessionDeleter, ages map[domain.SessionClass]time.Duration, logger *slog.Logger,
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
	store *sessions.Store,
	deleter *SessionDeleter,
	class domain.SessionClass,
	age time.Duration,
) (deleted int, err error) {
	for deleted < maxExpired {
		expired, err := store.DeleteExpired(ctx, class, age, expiredBatch)
		if err != nil {
			return deleted, err
		}

		for _, session := range expired {
			deleter.Remove(ctx, session)
		}

		deleted += len(expired)

		if len(expired) == 0 {
			return deleted, nil
		}
	}

	return deleted, nil
}
