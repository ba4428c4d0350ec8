package systemtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pg"
)

// awayLog is an event log that cannot be reached for a while.
type awayLog struct {
	pg.EventLog
	away atomic.Bool
}

func (l *awayLog) Publish(ctx context.Context, e domain.Event) (uint64, error) {
	if l.away.Load() {
		return 0, errors.New("the log is away")
	}

	return l.EventLog.Publish(ctx, e)
}

func (l *awayLog) Repeat(ctx context.Context, e domain.Event, after uint64) (uint64, error) {
	if l.away.Load() {
		return 0, errors.New("the log is away")
	}

	return l.EventLog.Repeat(ctx, e, after)
}

func TestEventsKeepTheirOrderWhenTheLogWasAway(t *testing.T) {
	t.Parallel()

	for name, after := range map[string]func(t *testing.T, s *stack, same *postgres.Store) *postgres.Store{
		"in the same process": func(_ *testing.T, _ *stack, same *postgres.Store) *postgres.Store { return same },
		"after a restart": func(t *testing.T, s *stack, _ *postgres.Store) *postgres.Store {
			next := postgres.NewStore(s.db, s.log, s.logger)
			require.NoError(t, next.Recover(t.Context()))

			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			session := s.session()
			log := &awayLog{EventLog: s.log}
			journal := postgres.NewStore(s.db, log, s.logger)
			rename := func(j *postgres.Store, intent string) {
				_, err := j.RenameSession(t.Context(), s.caller.User, session, intent)
				require.NoError(t, err)
			}
			rename(journal, "first")
			require.NoError(t, journal.Flush(t.Context()))
			log.away.Store(true)
			rename(journal, "second") // committed all the same
			rename(journal, "third")
			log.away.Store(false)

			last := after(t, s, journal)
			rename(last, "fourth")
			require.NoError(t, last.Flush(t.Context()))

			var intents []any
			for _, e := range s.events(session) {
				intents = append(intents, fields(e)["intent"])
			}

			require.Equal(t, []any{"first", "second", "third", "fourth"}, intents)
		})
	}
}
