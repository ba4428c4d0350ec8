package cron

import "time"

// searched bounds a search, in days: 29 February falls on a specific day of the week once in 28
// years, and once in 40 across 2100.
const searched = 41 * 366

// Next returns the first time after the given one at which the expression is due in the zone;
// false: there is none.
//
// A local time that a clock change skips is due once, at the next minute that exists; several
// skipped times, or a skipped time and a regular one, at the same minute count once. A local
// time that a clock change repeats is due once, the first time; but an expression for every
// hour follows elapsed time, so that it does not pause while an hour is repeated.
func (s Schedule) Next(after time.Time, zone *time.Location) (time.Time, bool) {
	next, due := s.nextOnce(after, zone)
	if s.hours.bits != everyHour {
		return next, due
	}

	return s.repeated(after, next, due, zone)
}

// Matches reports whether the expression is due at a time in the zone.
func (s Schedule) Matches(at time.Time, zone *time.Location) bool {
	next, due := s.Next(at.Add(-time.Nanosecond), zone)
	return due && next.Equal(at)
}

// everyHour is the hour field of an expression for every hour.
const everyHour = 1<<24 - 1

// repeated returns the first time after the given one and before next at which a matching
// reading occurs for the second time.
func (s Schedule) repeated(after, next time.Time, due bool, zone *time.Location) (time.Time, bool) {
	limit := next
	if !due {
		limit = after.AddDate(0, 0, searched)
	}

	for at := after; ; {
		start, end := at.In(zone).ZoneBounds()
		if again, found := s.second(after, start, zone); found && again.Before(limit) {
			return again, true
		}

		if end.IsZero() || !end.Before(limit) {
			return next, due
		}

		at = end
	}
}

// second returns the first time after the given one at which a matching reading occurs for the
// second time, in the span that the change at start repeats.
func (s Schedule) second(after, start time.Time, zone *time.Location) (time.Time, bool) {
	if start.IsZero() {
		return time.Time{}, false
	}

	_, before := start.Add(-time.Nanosecond).In(zone).Zone()
	_, now := start.In(zone).Zone()
	end := start.Add(time.Duration(before-now) * time.Second)

	from := start.Add(time.Minute - 1).Truncate(time.Minute)
	if !from.After(after) {
		from = after.Truncate(time.Minute).Add(time.Minute)
	}

	if !from.Before(end) {
		return time.Time{}, false
	}

	wall, found := s.nextWall(reading(from.In(zone)), reading(end.In(zone)))

	return from.Add(wall.Sub(reading(from.In(zone)))).In(zone), found
}

// nextOnce is Next, with each reading due once.
func (s Schedule) nextOnce(after time.Time, zone *time.Location) (time.Time, bool) {
	local := after.In(zone)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	end := wall.AddDate(0, 0, searched)

	// Wall clock readings are visited in order. Repeated readings map to their first instant,
	// so that the instants never decrease.
	for found := true; found; wall = wall.Add(time.Minute) {
		if wall, found = s.nextWall(wall, end); !found {
			break
		}

		if at := instant(wall, zone); at.After(after) {
			return at, true
		}
	}

	return time.Time{}, false
}

// nextWall returns the first wall clock reading that fits, from the given one on. It
// counts in UTC, where every reading exists once.
func (s Schedule) nextWall(wall, end time.Time) (time.Time, bool) {
	for wall.Before(end) {
		year, month, day := wall.Date()
		switch {
		case !s.months.has(int(month)):
			wall = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.dayFits(wall):
			wall = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !s.hours.has(wall.Hour()):
			wall = time.Date(year, month, day, wall.Hour()+1, 0, 0, 0, time.UTC)
		case !s.minutes.has(wall.Minute()):
			wall = wall.Add(time.Minute)
		default:
			return wall, true
		}
	}

	return wall, false
}

// dayFits reports whether the day is due: if no day field starts with *, either suffices.
func (s Schedule) dayFits(day time.Time) bool {
	ofMonth, ofWeek := s.days.has(day.Day()), s.weekdays.has(int(day.Weekday()))
	if s.either() {
		return ofMonth || ofWeek
	}

	return ofMonth && ofWeek
}

// instant returns when the clocks of a zone first show a reading or, if they skip it, the first
// whole minute after it.
func instant(wall time.Time, zone *time.Location) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, zone)

	start, end := at.ZoneBounds()
	if shows(at, wall) {
		if start.IsZero() {
			return at
		}

		_, before := start.Add(-time.Nanosecond).Zone()
		if earlier := wall.Add(-time.Duration(before) * time.Second); earlier.Before(start) && shows(earlier.In(zone), wall) {
			return earlier.In(zone)
		}

		return at
	}

	// Time.Date has used the offset of one side of the change.
	change := end
	if reading(at).After(wall) {
		change = start
	}

	if whole := change.Truncate(time.Minute); !whole.Equal(change) {
		change = whole.Add(time.Minute)
	}

	return change.In(zone)
}

func shows(at, wall time.Time) bool { return reading(at).Equal(wall) }

// reading returns the local time that clocks show, as if it were UTC.
func reading(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}
