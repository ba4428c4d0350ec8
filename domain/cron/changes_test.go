package cron_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/cron"
)

func TestSchedule_ChangeOn(t *testing.T) {
	t.Parallel()

	const reading = "01-02 15:04"

	for name, tc := range map[string]struct {
		expression, zone, at string
		want                 string // empty: a day like any other
	}{
		"left out, Berlin":        {"30 2 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00", "left out 03-29 02:00 to 03-29 03:00"},
		"repeated, Berlin":        {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "repeated 10-25 02:00 to 10-25 03:00"},
		"after it was repeated":   {"30 2,9 * * *", "Europe/Berlin", "2026-10-25T09:30:00+01:00", "repeated 10-25 02:00 to 10-25 03:00"},
		"every hour, before":      {"0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00", "left out 03-29 02:00 to 03-29 03:00"},
		"the day before":          {"30 2 * * *", "Europe/Berlin", "2026-03-28T02:30:00+01:00", ""},
		"the day after":           {"30 2 * * *", "Europe/Berlin", "2026-03-30T02:30:00+02:00", ""},
		"another hour of the day": {"0 12 * * *", "Europe/Berlin", "2026-03-29T12:00:00+02:00", ""},
		"the end is not left out": {"0 3 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00", ""},
		"a zone without changes":  {"30 2 * * *", "UTC", "2026-03-29T02:30:00Z", ""},
		"half an hour, Lord Howe": {
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-04T02:30:00+11:00", "left out 10-04 02:00 to 10-04 02:30",
		},
		"no midnight, Santiago": {"0 0 * * *", "America/Santiago", "2026-09-06T01:00:00-03:00", "left out 09-06 00:00 to 09-06 01:00"},
		"an evening that is longer": {
			"30 23 * * *", "America/Santiago", "2026-04-04T23:30:00-03:00", "repeated 04-04 23:00 to 04-05 00:00",
		},
		"no such day, Apia": {"0 9 * * *", "Pacific/Apia", "2011-12-31T00:00:00+14:00", "left out 12-30 00:00 to 12-31 00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			parsed, err := cron.Parse(tc.expression)
			require.NoError(t, err)
			zone, err := time.LoadLocation(tc.zone)
			require.NoError(t, err)
			at, err := time.Parse(time.RFC3339, tc.at)
			require.NoError(t, err)

			got := ""

			if change, found := parsed.ChangeOn(at, zone); found {
				got = map[bool]string{false: "left out ", true: "repeated "}[change.Repeated] +
					change.From.Format(reading) + " to " + change.To.Format(reading)
			}

			require.Equal(t, tc.want, got)
		})
	}
}

// A field that begins with * restricts, but never adds days to those of the other day field:
// both must hold. The days are counted by the calendar alone.
func TestSchedule_Next_stepOfStarAddsNoDays(t *testing.T) {
	t.Parallel()

	const days = 424

	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	odd := func(day time.Time) bool { return day.Day()%2 == 1 }
	monday := func(day time.Time) bool { return day.Weekday() == time.Monday }
	firstWeek := func(day time.Time) bool { return day.Day() <= 7 }
	evenWeekday := func(day time.Time) bool { return day.Weekday()%2 == 0 }

	for expression, tc := range map[string]struct {
		fits func(day time.Time) bool
		want int
	}{
		"0 9 */2 * 1":    {func(day time.Time) bool { return odd(day) && monday(day) }, 30},
		"0 9 */2 * MON":  {func(day time.Time) bool { return odd(day) && monday(day) }, 30},
		"0 9 1-31/2 * 1": {func(day time.Time) bool { return odd(day) || monday(day) }, 246},
		"0 9 1-7 * */2":  {func(day time.Time) bool { return firstWeek(day) && evenWeekday(day) }, 56},
		"0 9 */2 * */2":  {func(day time.Time) bool { return odd(day) && evenWeekday(day) }, 125},
		"0 9 */2 * *":    {odd, 216},
		"0 9 * * 1":      {monday, 60},
	} {
		parsed, err := cron.Parse(expression)
		require.NoError(t, err)

		var want, got []string

		for i := range days {
			if day := start.AddDate(0, 0, i); tc.fits(day) {
				want = append(want, day.Format(time.DateOnly))
			}
		}

		for at := start; ; {
			next, due := parsed.Next(at, time.UTC)
			if !due || !next.Before(start.AddDate(0, 0, days)) {
				break
			}

			got = append(got, next.Format(time.DateOnly))
			at = next
		}

		require.Equal(t, want, got, expression)
		require.Len(t, got, tc.want, expression)
	}
}
