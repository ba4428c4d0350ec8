package cron_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/cron"
)

// infra/temporal compares plans with the times that Temporal's server finds.
func TestSchedule_Plan(t *testing.T) {
	t.Parallel()

	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)

	from := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)

	for expression, want := range map[string]struct {
		zone                          *time.Location
		calendars, excluded, instants int
	}{
		"0 9 * * *":   {berlin, 1, 0, 0}, // no clock change touches it
		"30 2 * * *":  {berlin, 4, 0, 1}, // 03:00 in March; the day of October is cut out, and listed
		"30 2 * * 1":  {berlin, 1, 0, 0}, // clocks change on Sundays
		"0 0 13 * 5":  {time.UTC, 2, 0, 0},
		"0 0 */2 * 5": {time.UTC, 1, 0, 0},
	} {
		s, err := cron.Parse(expression)
		require.NoError(t, err)

		plan := s.Plan(from, want.zone)
		require.Equal(t, []int{want.calendars, want.excluded, want.instants},
			[]int{len(plan.Calendars), len(plan.Excluded), len(plan.Instants)}, "%s: %+v", expression, plan)
		require.Equal(t, want.zone == berlin, !plan.Until.IsZero())
	}
}

func TestCalendar_Expression(t *testing.T) {
	t.Parallel()

	for _, expression := range []string{"30 2 * * *", "*/15 8-17 * * 1-5", "0 9 */2 * 1", "5,20 0 1 1-6 *", "0 0 29 2 *"} {
		s, err := cron.Parse(expression)
		require.NoError(t, err)

		text, ok := s.Plan(time.Now(), time.UTC).Calendars[0].Expression()
		require.True(t, ok, expression)

		again, err := cron.Parse(text)
		require.NoError(t, err)
		require.Equal(t, s.String(), again.String(), text)
	}

	s, err := cron.Parse("0 9 1-10 * 1-5")
	require.NoError(t, err)

	c := s.Plan(time.Now(), time.UTC).Calendars[0]
	c.Weekdays = []cron.Range{{Start: 1, End: 5, Step: 1}}
	_, ok := c.Expression()
	require.False(t, ok, "in an expression either day field would suffice")
}
