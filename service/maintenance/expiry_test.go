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
	removed []domain.SessionID
	fault   error
}

func (e *expiring) DeleteExpired(
	_ context.Context, class domain.SessionClass, age time.Duration, limit int,
) (deleted []domain.DeletedSession, err error) {
	e.asked[class] = age

	some := min(limit, len(e.left[class]))
	for _, id := range e.left[class][:some] {
		deleted = append(deleted, domain.DeletedSession{SessionID: id, OwnerID: "ann"})
	}

	e.left[class] = e.left[class][some:]

	return deleted, e.fault
}

func (e *expiring) Remove(_ context.Context, session domain.DeletedSession) {
	e.removed = append(e.removed, session.SessionID)
}

func TestExpireSessions(t *testing.T) {
	t.Parallel()

	e := &expiring{asked: map[domain.SessionClass]time.Duration{}, left: map[domain.SessionClass][]domain.SessionID{
		domain.ClassChat: {"kept"}, domain.ClassSchedule: {"a", "b"},
	}}
	ages := map[domain.SessionClass]time.Duration{domain.ClassSchedule: time.Hour, domain.ClassDAG: time.Minute}
	job := maintenance.ExpireSessions(e, e, ages, slog.New(slog.DiscardHandler))
	require.NoError(t, job(t.Context()))
	require.Equal(t, []domain.SessionID{"a", "b"}, e.removed)
	require.Equal(t, ages, e.asked, "a class without an age is kept")

	for range 600 {
		e.left[domain.ClassDAG] = append(e.left[domain.ClassDAG], "x")
	}

	e.removed = nil

	require.NoError(t, job(t.Context()))
	require.Len(t, e.removed, 500, "one run of the job has a bound")

	e.fault = errors.New("the database is away")
	require.ErrorIs(t, job(t.Context()), e.fault)
}
