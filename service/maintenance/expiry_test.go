package maintenance_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/service/maintenance"
)

// expiring has unused sessions, by class.
type expiring struct {
	left    map[domain.SessionClass][]domain.SessionID
	asked   map[domain.SessionClass]time.Duration
	deleted []domain.SessionID
	fault   error
}

func (e *expiring) ExpiredSessions(
	_ context.Context, class domain.SessionClass, age time.Duration, limit int,
) ([]domain.SessionID, error) {
	e.asked[class] = age
	return e.left[class][:min(limit, len(e.left[class]))], nil
}

func (e *expiring) DeleteSession(_ context.Context, id domain.SessionID) error {
	for class, ids := range e.left {
		if len(ids) > 0 && ids[0] == id {
			e.left[class] = ids[1:]
		}
	}

	if id == "gone" {
		return domain.SessionNotFound(id)
	}

	e.deleted = append(e.deleted, id)

	return e.fault
}

func TestExpireSessions(t *testing.T) {
	t.Parallel()

	e := &expiring{asked: map[domain.SessionClass]time.Duration{}, left: map[domain.SessionClass][]domain.SessionID{
		domain.ClassChat: {"kept"}, domain.ClassSchedule: {"a", "gone", "b"},
	}}
	ages := map[domain.SessionClass]time.Duration{domain.ClassSchedule: time.Hour, domain.ClassDAG: time.Minute}
	job := maintenance.ExpireSessions(e, e, ages, slog.New(slog.DiscardHandler))
	require.NoError(t, job(t.Context()))
	require.Equal(t, []domain.SessionID{"a", "b"}, e.deleted)
	require.Equal(t, ages, e.asked, "a class without an age is kept")

	for range 600 {
		e.left[domain.ClassDAG] = append(e.left[domain.ClassDAG], "x")
	}

	e.deleted = nil

	require.NoError(t, job(t.Context()))
	require.Len(t, e.deleted, 500, "one run of the job has a bound")

	e.fault, e.deleted = errors.New("the database is away"), nil
	require.ErrorIs(t, job(t.Context()), e.fault)
	require.Len(t, e.deleted, 1, "the next run goes on")
}
