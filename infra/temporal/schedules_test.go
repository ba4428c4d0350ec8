package temporal_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/server/service/worker/scheduler"

	"everloop/domain/cron"
	"everloop/infra/temporal"
)

// matching returns the times at which Temporal's server takes a plan as due.
func matching(t *testing.T, plan cron.Plan, zone string, from, to time.Time) (times []time.Time) {
	t.Helper()

	spec := temporal.PlanSpec(plan)
	spec.TimezoneName = zone

	return matchingSpec(t, spec, from, to)
}

func matchingSpec(t *testing.T, spec *schedulepb.ScheduleSpec, from, to time.Time) (times []time.Time) {
	t.Helper()

	unlimited := func() int { return 0 }
	compiled, err := scheduler.NewSpecBuilder(unlimited, unlimited).NewCompiledSpec(spec)
	require.NoError(t, err)

	for at := from; ; {
		next, err := compiled.GetNextTime("", at)
		require.NoError(t, err)

		if next.Nominal.IsZero() || !next.Nominal.Before(to) {
			return times
		}

		at = next.Nominal
		times = append(times, at)
	}
}

func due(s cron.Schedule, zone *time.Location, from, to time.Time) (times []time.Time) {
	for at, ok := s.Next(from, zone); ok && at.Before(to); at, ok = s.Next(at, zone) {
		times = append(times, at.UTC())
	}

	return times
}

func requireSame(t *testing.T, expression, name string, from time.Time, days int) {
	t.Helper()

	s, err := cron.Parse(expression)
	require.NoError(t, err)
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)

	plan, to := s.Plan(from, zone), from.AddDate(0, 0, days)
	if !plan.Until.IsZero() && plan.Until.Before(to) {
		to = plan.Until
	}

	want, got := due(s, zone, from, to), matching(t, plan, name, from, to)
	if !slices.Equal(want, got) {
		t.Fatalf("%q in %s from %s: want %d times, got %d; first difference: %s\nplan: %+v", expression, name, from, len(want), len(got),
			difference(want, got, zone), plan)
	}
}

func difference(want, got []time.Time, zone *time.Location) string {
	for i, at := range want {
		if i >= len(got) || !got[i].Equal(at) {
			return fmt.Sprintf("want %s, got %s", at.In(zone), got[min(i, len(got)):min(i+2, len(got))])
		}
	}

	return fmt.Sprint("got ", got[len(want):min(len(want)+3, len(got))])
}

func TestPlanSpec_isDueAsNext(t *testing.T) {
	t.Parallel()

	for _, expression := range []string{
		"30 2 * * *", "*/15 * * * *", "*/15 2 * * *", "0 2,3 * * *", "30 1 * * *", "30 * * * *", "0 9 */2 * 1", "0 9 1-7 * */6",
		"0 0 13 * 5", "0 0 29 2 *", "0 0 * * *", "@daily", "@weekly", "@yearly", "15 2 * * *", "15,45 2 * * 0", "0 * 25 10 *", "0 9 * * 0",
		"0 0-5 * * 6,0",
		"5 23,0,1,2 * 3,4,9,10,11 *", "* 0-3 * * *",
	} {
		for _, zone := range []string{
			"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Asia/Beirut",
			"Asia/Kolkata", "America/Havana", "Antarctica/Troll",
		} {
			for _, from := range []string{"2026-01-10T07:31:00Z", "2026-10-25T00:40:00Z"} {
				at, err := time.Parse(time.RFC3339, from)
				require.NoError(t, err)
				requireSame(t, expression, zone, at, 300)
			}
		}
	}
}

// Random expressions in random zones, around the changes of ten years.
func TestPlanSpec_isDueAsNext_random(t *testing.T) {
	t.Parallel()

	random := rand.New(rand.NewPCG(26, 41))
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Pacific/Chatham"}
	pick := func(items ...string) string { return items[random.IntN(len(items))] }

	for range 100 {
		expression := strings.Join([]string{
			pick("*/15", "0", "30", "10-50/20", "7,59", "*/7"), pick("*", "2", "1,3", "0-4", "*/2", "23,0", "1-3"),
			pick("*", "*", "*/2", "1-15", "25-31"), pick("*", "*", "3,10,11", "4-9"), pick("*", "*", "0", "0,6", "1-5", "*/2"),
		}, " ")
		from := time.Date(
			2026+random.IntN(10),
			time.Month(1+random.IntN(12)),
			1+random.IntN(28),
			random.IntN(24),
			random.IntN(60),
			0,
			0,
			time.UTC,
		)
		requireSame(t, expression, pick(zones...), from, 250)
	}
}
