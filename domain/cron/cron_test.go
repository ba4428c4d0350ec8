package cron_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"everloop/domain/cron"
)

func TestParse_refusals(t *testing.T) {
	t.Parallel()

	for expression, want := range map[string]cron.Error{
		"":                  {Reason: "has 0 fields, not the five of minute, hour, day of month, month and day of week"},
		"* * * *":           {Reason: "has 4 fields, not the five of minute, hour, day of month, month and day of week"},
		"0 * * * * *":       {Reason: "has 6 fields, not the five of minute, hour, day of month, month and day of week"},
		"@every 5m":         {Reason: "is none of @hourly, @daily, @weekly, @monthly and @yearly"},
		"@reboot":           {Reason: "is none of @hourly, @daily, @weekly, @monthly and @yearly"},
		"60 * * * *":        {Field: "minute", Reason: `"60" is not a number from 0 to 59`},
		"-1 * * * *":        {Field: "minute", Reason: `the range of "-1" is not two values, as in 1-5`},
		"1-2-3 * * * *":     {Field: "minute", Reason: `the range of "1-2-3" is not two values, as in 1-5`},
		"+1 * * * *":        {Field: "minute", Reason: `"+1" is not a number from 0 to 59`},
		"1,,2 * * * *":      {Field: "minute", Reason: "has an empty item in its list"},
		"1, * * * *":        {Field: "minute", Reason: "has an empty item in its list"},
		"*/0 * * * *":       {Field: "minute", Reason: `the step of "*/0" is not a number from 1 to 59`},
		"*/ * * * *":        {Field: "minute", Reason: `the step of "*/" is not a number from 1 to 59`},
		"* 24 * * *":        {Field: "hour", Reason: `"24" is not a number from 0 to 23`},
		"* 5-3 * * *":       {Field: "hour", Reason: `the range of "5-3" begins after its end`},
		"* * 0 * *":         {Field: "day of month", Reason: `"0" is not a number from 1 to 31`},
		"* * ? * *":         {Field: "day of month", Reason: `"?" is not a number from 1 to 31`},
		"* * L * *":         {Field: "day of month", Reason: `"L" is not a number from 1 to 31`},
		"* * * 13 *":        {Field: "month", Reason: `"13" is neither a number from 1 to 12 nor one of JAN to DEC`},
		"* * * * 8":         {Field: "day of week", Reason: `"8" is neither a number from 0 to 7 nor one of SUN to SAT`},
		"* * * * mond":      {Field: "day of week", Reason: `"mond" is neither a number from 0 to 7 nor one of SUN to SAT`},
		"0 0 30 2 *":        {Field: "day of month", Reason: "no month of the expression has such a day"},
		"0 0 31 4,6,9,11 *": {Field: "day of month", Reason: "no month of the expression has such a day"},
		"0 0 30 2 */3":      {Field: "day of month", Reason: "no month of the expression has such a day"},
		"CRON_TZ=UTC * * * * *": {
			Reason: "has 6 fields, not the five of minute, hour, day of month, month and day of week",
		},
	} {
		_, err := cron.Parse(expression)

		var fault *cron.Error
		require.ErrorAs(t, err, &fault, expression)
		require.Equal(t, want, *fault, expression)
	}
}

func TestSchedule_String(t *testing.T) {
	t.Parallel()

	for expression, want := range map[string]string{
		"* * * * *":             "Every minute",
		"*/1 * * * *":           "Every minute",
		"@hourly":               "At minute 0 of every hour",
		"@Daily":                "At 00:00",
		"@weekly":               "At 00:00, on Sunday",
		"@monthly":              "At 00:00, on day 1 of the month",
		"@yearly":               "At 00:00, on day 1 of the month, in January",
		"30 9 * * MON-FRI":      "At 09:30, on Monday to Friday",
		"0 8,20 * * 7":          "At 08:00 and 20:00, on Sunday",
		"0,15,30,45 8-17 * * *": "At minute 0, 15, 30 and 45 of hour 8 to 17",
		"* 0-3 * * *":           "Every minute of hour 0 to 3",
		"0 0 13 * fri":          "At 00:00, on day 13 of the month or on Friday",
		"5 4 * jun-aug,dec 5-7": "At 04:05, on Sunday, Friday and Saturday, in June to August and December",
		"0 7 * * fri-sun":       "At 07:00, on Sunday, Friday and Saturday",
		"50/5 0 * * *":          "At 00:50 and 00:55",
		"0 9 */10 * 1":          "At 09:00, on day 1, 11, 21 and 31 of the month and only on Monday",
	} {
		parsed, err := cron.Parse(expression)
		require.NoError(t, err, expression)
		require.Equal(t, want, parsed.String(), expression)
	}
}

func TestSchedule_Next_clockChanges(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"left out, Berlin": {"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{
			"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00",
		}},
		"several left out are one": {"*/15 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{
			"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00",
		}},
		"left out, and due by itself": {"0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{
			"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00",
		}},
		"repeated, New York": {"30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00", []string{
			"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00",
		}},
		"repeated hour, from within it": {"*/30 * * * *", "America/New_York", "2026-11-01T01:10:00-05:00", []string{
			"2026-11-01T01:30:00-05:00", "2026-11-01T02:00:00-05:00", "2026-11-01T02:30:00-05:00",
		}},
		"real time over a repeated hour": {"*/15 * * * *", "Europe/Berlin", "2026-10-25T02:40:00+02:00", []string{
			"2026-10-25T02:45:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:15:00+01:00", "2026-10-25T02:30:00+01:00",
			"2026-10-25T02:45:00+01:00", "2026-10-25T03:00:00+01:00",
		}},
		"hourly over a repeated hour": {"30 * * * *", "Europe/Berlin", "2026-10-25T01:40:00+02:00", []string{
			"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00",
		}},
		"half an hour repeated, Lord Howe": {"*/10 * * * *", "Australia/Lord_Howe", "2026-04-05T01:45:00+11:00", []string{
			"2026-04-05T01:50:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:40:00+10:30", "2026-04-05T01:50:00+10:30",
			"2026-04-05T02:00:00+10:30",
		}},
		"only on the day of the change": {"0 * 25 10 *", "Europe/Berlin", "2026-10-25T00:30:00+02:00", []string{
			"2026-10-25T01:00:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00",
		}},
		"one hour that is repeated": {"0,30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+02:00", []string{
			"2026-10-25T02:30:00+02:00", "2026-10-26T02:00:00+01:00",
		}},
		"step of * and day of week": {"0 9 */2 * 1", "UTC", "2026-02-01T00:00:00Z", []string{
			"2026-02-09T09:00:00Z", "2026-02-23T09:00:00Z", "2026-03-09T09:00:00Z",
		}},
		"day of month and step of *": {"0 9 1-7 * */6", "UTC", "2026-02-01T10:00:00Z", []string{
			"2026-02-07T09:00:00Z", "2026-03-01T09:00:00Z",
		}},
		"29 February on Sundays": {"0 0 29 2 */7", "UTC", "2032-03-01T00:00:00Z", []string{"2060-02-29T00:00:00Z"}},
		"half an hour, Lord Howe": {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", []string{
			"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00",
		}},
		"no midnight, Santiago": {"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00-04:00", []string{
			"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00",
		}},
		"no such day, Apia": {"0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", []string{
			"2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00",
		}},
		"29 February over 2100": {"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		"either day field":      {"0 0 13 * 5", "UTC", "2026-02-10T00:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			parsed, err := cron.Parse(tc.expression)
			require.NoError(t, err)
			zone, err := time.LoadLocation(tc.zone)
			require.NoError(t, err)
			at, err := time.Parse(time.RFC3339, tc.after)
			require.NoError(t, err)

			for _, want := range tc.want {
				next, ok := parsed.Next(at, zone)
				require.True(t, ok)
				require.Equal(t, want, next.Format(time.RFC3339))
				at = next
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "@daily", "1-5/2,7 */3 ? L 7", "0 0 29 2 *", "9999 1 1 1 1"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, expression string) {
		parsed, err := cron.Parse(expression)
		if err != nil {
			var fault *cron.Error
			require.ErrorAs(t, err, &fault)

			return
		}

		require.NotEmpty(t, parsed.String())
		_, due := parsed.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC)
		require.True(t, due, expression)
	})
}
