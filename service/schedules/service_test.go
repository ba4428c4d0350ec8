package schedules

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// hanging is a database whose updates of schedules last until they are released.
type hanging struct {
	Records
	Chats
	Models
	began   chan struct{}
	release chan struct{}
}

func (h hanging) DeleteScheduledTask(context.Context, string, string) error { return nil }

func (h hanging) SyncSchedule(context.Context, string, func(context.Context, domain.ScheduleSync) error) error {
	h.began <- struct{}{}

	<-h.release

	return nil
}

// While Temporal hangs, changes of tasks do not hold all connections to the database.
func TestService_synchronise_isBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{began: make(chan struct{}, 100), release: make(chan struct{})}
		s, err := New(Config{Records: h, Runs: nothing{}, Chats: h, Models: h, Logger: slog.Default()})
		require.NoError(t, err)

		for i := range 100 {
			require.NoError(t, s.Delete(t.Context(), "owner", strconv.Itoa(i)))
		}

		synctest.Wait()
		require.Len(t, h.began, mostSyncs)

		close(h.release)
		synctest.Wait()
		require.NoError(t, s.Delete(t.Context(), "owner", "later"))
		synctest.Wait()
		require.Len(t, h.began, mostSyncs+1)
	})
}

type nothing struct{}

func (nothing) StartScheduledRun(context.Context, string) error         { return nil }
func (nothing) SyncSchedule(context.Context, domain.ScheduleSync) error { return nil }
