package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
)

// awayLog is an event log that cannot be reached for a while.
type awayLog struct {
	postgres.EventLog
	away atomic.Bool
}

func (l *awayLog) Publish(ctx context.Context, e domain.Event) (uint64, error) {
	if l.away.Load() {
		return 0, errors.New("the log is away")
	}
	return l.EventLog.Publish(ctx, e)
}

func TestEventsKeepTheirOrderWhenTheLogWasAway(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(t *testing.T, s *stack, same *postgres.Journal) *postgres.Journal{
		"in the same process": func(_ *testing.T, _ *stack, same *postgres.Journal) *postgres.Journal { return same },
		"after a restart": func(t *testing.T, s *stack, _ *postgres.Journal) *postgres.Journal {
			next := postgres.NewJournal(s.journal.DB, s.log, s.desk.Logger)
			require.NoError(t, next.Recover(t.Context()))
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			session := s.session()
			log := &awayLog{EventLog: s.log}
			journal := postgres.NewJournal(s.journal.DB, log, s.desk.Logger)
			rename := func(j *postgres.Journal, intent string) {
				_, err := j.RenameSession(t.Context(), s.caller.User, session, intent)
				require.NoError(t, err)
			}
			rename(journal, "first")
			log.away.Store(true)
			rename(journal, "second") // committed all the same
			rename(journal, "third")
			log.away.Store(false)
			rename(after(t, s, journal), "fourth")

			var intents []any
			for _, e := range s.events(session) {
				intents = append(intents, fields(e)["intent"])
			}
			require.Equal(t, []any{"first", "second", "third", "fourth"}, intents)
		})
	}
}
