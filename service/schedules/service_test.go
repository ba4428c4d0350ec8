package schedules

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/service/targets"
)

// hanging is a database whose updates of schedules last until they are released.
type hanging struct {
	Store
	Chats
	Models
	began   chan struct{}
	release chan struct{}
}

func (h hanging) DeleteScheduledTask(context.Context, string, string) error { return nil }

func (h hanging) ClaimPush(context.Context, string) (schedule.Push, bool, error) {
	h.began <- struct{}{}

	<-h.release

	return schedule.Push{}, false, nil
}

// While Temporal hangs, few changes of tasks wait for it.
func TestService_write_isBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{began: make(chan struct{}, 100), release: make(chan struct{})}
		s, err := New(
			Config{
				Store:   h,
				Engine:  nothing{},
				Chats:   h,
				Models:  h,
				Agents:  noAgents{},
				Targets: targets.New(targets.Deps{}),
				Logger:  slog.Default(),
			},
		)
		require.NoError(t, err)

		for i := range 100 {
			go func() { _ = s.Delete(t.Context(), "owner", strconv.Itoa(i)) }()
		}

		synctest.Wait()
		require.Len(t, h.began, maxPushes)

		close(h.release)
		synctest.Wait()
		require.NoError(t, s.Delete(t.Context(), "owner", "later"))
		require.Len(t, h.began, maxPushes+1)
	})
}

func TestService_Preview(t *testing.T) {
	t.Parallel()

	s := &Service{}
	after := time.Date(2030, 3, 29, 12, 0, 0, 0, time.UTC)

	// The clocks of Berlin skip from 2:00 to 3:00 on 31 March.
	preview, err := s.Preview("30 2 * * *", "Europe/Berlin", after, 3)
	require.NoError(t, err)
	require.Equal(t, schedule.CronPreview{
		CronText: "At 02:30", Timezone: "Europe/Berlin", Occurrences: []time.Time{
			time.Date(2030, 3, 30, 1, 30, 0, 0, time.UTC),
			time.Date(2030, 3, 31, 1, 0, 0, 0, time.UTC),
			time.Date(2030, 4, 1, 0, 30, 0, 0, time.UTC),
		},
		ClockChanges: []schedule.ClockChange{{Date: "2030-03-31", Kind: "left_out", From: "02:00", To: "03:00"}},
	}, preview)

	// On 27 October they go back from 3:00 to 2:00.
	for expression, want := range map[string][]schedule.ClockChange{
		"30 2 * * *":   {{Date: "2030-10-27", Kind: "repeated", From: "02:00", To: "03:00"}},
		"*/20 2 * * *": {{Date: "2030-10-27", Kind: "repeated", From: "02:00", To: "03:00"}},
		"0 12 * * *":   {},
	} {
		preview, err := s.Preview(expression, "Europe/Berlin", time.Date(2030, 10, 25, 12, 0, 0, 0, time.UTC), 6)
		require.NoError(t, err)
		require.Equal(t, want, preview.ClockChanges, expression)
	}

	for _, tc := range []struct{ cron, zone, code string }{
		{"61 * * * *", "UTC", "invalid_cron"},
		{"@daily", "Nowhere", "invalid_timezone"},
		{"@daily", "Local", "invalid_timezone"},
	} {
		_, err := s.Preview(tc.cron, tc.zone, after, 1)
		require.True(t, domain.HasCode(err, tc.code), "%s: %v", tc.cron, err)
	}
}

// The matcher would try each combination of the groups of a pattern.
func TestCheckOutcome_refusesExponentialPattern(t *testing.T) {
	t.Parallel()

	require.NoError(t, checkOutcome(&schedule.TaskSpec{Files: []string{"report/*.{md,pdf}"}}))

	err := checkOutcome(&schedule.TaskSpec{Files: []string{"a", strings.Repeat("{a,a}", 40) + "b"}})
	require.ErrorContains(t, err, "is not a valid pattern")
}

type nothing struct{ Engine }

type noAgents struct{ Agents }
