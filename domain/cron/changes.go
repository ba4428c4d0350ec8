package cron

import "time"

// ClockChange is a day on which the clocks of a zone skip or repeat local times at which an
// expression is due. The local times are those from From on and before To.
type ClockChange struct {
	Day      time.Time // at 00:00, as if it were UTC
	From, To time.Time // readings, as if they were UTC
	Repeated bool      // false: they are skipped
}

// ChangeOn returns the clock change on the day of a time, if it affects when the expression is
// due; false: it does not.
func (s Schedule) ChangeOn(at time.Time, zone *time.Location) (ClockChange, bool) {
	local := at.In(zone)
	start, end := local.ZoneBounds()

	for _, change := range []time.Time{start, end} {
		if change.IsZero() {
			continue
		}

		before, now := readingBefore(change, zone), reading(change.In(zone))

		c := ClockChange{Day: dayOf(now), From: before, To: now}
		if c.Repeated = now.Before(before); c.Repeated {
			c.From, c.To = now, before
		}

		if !c.Day.Equal(dayOf(reading(local))) {
			continue
		}

		if _, due := s.nextWall(c.From, c.To); due {
			return c, true
		}
	}

	return ClockChange{}, false
}

// readingBefore returns the local time that clocks would show at the time of a change without
// it.
func readingBefore(change time.Time, zone *time.Location) time.Time {
	return reading(change.Add(-time.Second).In(zone)).Add(time.Second)
}

func dayOf(reading time.Time) time.Time {
	return time.Date(reading.Year(), reading.Month(), reading.Day(), 0, 0, 0, 0, time.UTC)
}
