package cron

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is an expression as the calendars of Temporal's schedules, for one time zone.
//
// Those calendars handle clock changes differently: they skip a local time that does not exist,
// and are due twice at a repeated one. The plan lists the differences at the next changes, up
// to Until, separately.
type Plan struct {
	Calendars []Calendar
	Excluded  []Calendar
	// Instants are times with a repeated reading: calendars cannot express only one of the two.
	Instants []time.Time
	// Until is a day before the first clock change that the plan does not take into account;
	// zero: there is none.
	Until time.Time
}

// Calendar is due at each minute that all its fields match.
type Calendar struct {
	Minutes, Hours, Days, Months, Weekdays, Years []Range
}

// Range is the values from Start to End, each Step of them.
type Range struct{ Start, End, Step int }

// Bounds of the years of a calendar.
const (
	firstYear, lastYear = 2000, 2100
	allYears            = lastYear - firstYear + 1
)

const (
	plannedChanges = 2
	aroundChange   = 26 * time.Hour // in which a clock change can differ, before and after it
)

// Plan returns the calendars of the expression, with the next two clock changes after a time.
func (s Schedule) Plan(from time.Time, zone *time.Location) Plan {
	p := planning{schedule: s, zone: zone, calendars: s.calendars()}

	at := from.Add(-aroundChange)
	for planned := 0; ; {
		_, change := at.In(zone).ZoneBounds()
		if change.IsZero() || change.Year() >= lastYear {
			break
		}

		if planned == plannedChanges {
			p.plan.Until = change.Add(-aroundChange)
			break
		}

		p.around(change)

		if at = change; change.After(from) {
			planned++
		}
	}

	for _, c := range append(p.calendars, p.literals...) {
		p.plan.Calendars = append(p.plan.Calendars, c.exported())
	}

	return p.plan
}

// planning is the state of creating a plan. Literals are calendars of one time each.
type planning struct {
	schedule            Schedule
	zone                *time.Location
	calendars, literals []calendar
	excluded            map[time.Time]bool // by reading
	plan                Plan
}

// planRounds bounds how often the times around a clock change are compared: adding a time
// changes where Temporal's search continues.
const planRounds = 8

// around adds the differences around a clock change, until Temporal is due at the same times as
// the expression.
func (p *planning) around(change time.Time) {
	from, to := change.Add(-aroundChange), change.Add(aroundChange)

	var wanted []time.Time
	for at, due := p.schedule.Next(from, p.zone); due && at.Before(to); at, due = p.schedule.Next(at, p.zone) {
		wanted = append(wanted, at.UTC())
	}

	for range planRounds {
		if !p.compare(wanted, from, to) {
			return
		}
	}
}

// compare adds the differences, and reports whether there were any.
func (p *planning) compare(wanted []time.Time, from, to time.Time) (differs bool) {
	isWanted, readings, found := map[time.Time]bool{}, map[time.Time]bool{}, map[time.Time]bool{}
	for _, at := range wanted {
		isWanted[at], readings[reading(at.In(p.zone))] = true, true
	}

	for at := p.next(from); !at.IsZero() && at.Before(to); at = p.next(at) {
		found[at.UTC()] = true
		if isWanted[at.UTC()] {
			continue
		}

		differs = true

		if wall := reading(at.In(p.zone)); readings[wall] {
			p.carve(wall.Truncate(time.Hour), wanted)
		} else {
			p.exclude(wall)
		}
	}

	for _, at := range wanted {
		if found[at] {
			continue
		}

		differs = true

		if wall := reading(at.In(p.zone)); shownOnce(at, p.zone) {
			p.literals = append(p.literals, calendarAt(wall))
		} else {
			p.carve(wall.Truncate(time.Hour), wanted)
		}
	}

	return differs
}

// carve removes an hour from the calendars, and lists its times instead.
func (p *planning) carve(hour time.Time, wanted []time.Time) {
	p.calendars = without(p.calendars, hour)

	for _, at := range wanted {
		if reading(at.In(p.zone)).Truncate(time.Hour).Equal(hour) && !slices.ContainsFunc(p.plan.Instants, at.Equal) {
			p.plan.Instants = append(p.plan.Instants, at)
		}
	}
}

func (p *planning) exclude(wall time.Time) {
	if p.excluded[wall] {
		return
	}

	if p.excluded == nil {
		p.excluded = map[time.Time]bool{}
	}

	p.excluded[wall] = true
	p.plan.Excluded = append(p.plan.Excluded, calendarAt(wall).exported())
}

// next returns the next time at which Temporal takes the plan as due; zero: there is none.
func (p *planning) next(after time.Time) (first time.Time) {
	for {
		first = time.Time{}

		for _, list := range [][]calendar{p.calendars, p.literals} {
			for _, c := range list {
				first = earlier(first, c.next(after, p.zone))
			}
		}

		for _, at := range p.plan.Instants {
			if at.After(after) {
				first = earlier(first, at)
			}
		}

		if first.IsZero() || !p.excluded[reading(first.In(p.zone))] {
			return first
		}

		after = first
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}

	return a
}

// shownOnce reports whether the reading of a time occurs only once.
func shownOnce(at time.Time, zone *time.Location) bool {
	start, end := at.In(zone).ZoneBounds()
	for _, change := range []time.Time{start, end} {
		if change.IsZero() {
			continue
		}

		_, before := change.Add(-time.Second).In(zone).Zone()
		_, now := change.In(zone).Zone()
		shift := time.Duration(before-now) * time.Second

		for _, other := range []time.Time{at.Add(shift), at.Add(-shift)} {
			if !other.Equal(at) && shows(other.In(zone), reading(at.In(zone))) {
				return false
			}
		}
	}

	return true
}

// calendar is a Calendar as bits; years count from firstYear.
type calendar struct {
	minutes, hours, days, months, weekdays uint64
	years                                  [2]uint64
}

const (
	everyDay     = 1<<32 - 2 // 1 to 31
	everyWeekday = 1<<7 - 1
)

// calendars returns the calendars of the expression: two where either day field suffices.
func (s Schedule) calendars() []calendar {
	c := calendar{
		minutes: s.minutes.bits, hours: s.hours.bits, days: s.days.bits, months: s.months.bits, weekdays: s.weekdays.bits,
		years: [2]uint64{^uint64(0), 1<<(allYears-64) - 1},
	}
	if !s.either() {
		return []calendar{c}
	}

	ofMonth, ofWeek := c, c
	ofMonth.weekdays, ofWeek.days = everyWeekday, everyDay

	return []calendar{ofMonth, ofWeek}
}

func (c calendar) hasYear(year int) bool {
	year -= firstYear
	return year >= 0 && year < allYears && c.years[year/64]&(1<<(year%64)) != 0
}

// calendarAt is due at one reading.
func calendarAt(wall time.Time) calendar {
	c := calendar{
		minutes: 1 << wall.Minute(), hours: 1 << wall.Hour(), days: 1 << wall.Day(), months: 1 << int(wall.Month()), weekdays: everyWeekday,
	}
	c.years[(wall.Year()-firstYear)/64] = 1 << ((wall.Year() - firstYear) % 64)

	return c
}

// without returns calendars that are due at the same times, except for one hour of one day.
func without(calendars []calendar, hour time.Time) (rest []calendar) {
	for _, c := range calendars {
		year, month, day := hour.Year()-firstYear, uint64(1)<<int(hour.Month()), uint64(1)<<hour.Day()
		if !c.hasYear(hour.Year()) || c.months&month == 0 || c.days&day == 0 || c.hours&(1<<hour.Hour()) == 0 {
			rest = append(rest, c)
			continue
		}

		others, months, days, hours := c, c, c, c
		others.years[year/64] &^= 1 << (year % 64)
		months.years = [2]uint64{}
		months.years[year/64] = 1 << (year % 64)
		days.years, hours.years = months.years, months.years
		months.months &^= month
		days.months, hours.months = month, month
		days.days &^= day
		hours.days = day
		hours.hours &^= 1 << hour.Hour()

		for _, piece := range []calendar{others, months, days, hours} {
			if piece.months != 0 && piece.days != 0 && piece.hours != 0 && piece.years != [2]uint64{} {
				rest = append(rest, piece)
			}
		}
	}

	return rest
}

func (c calendar) exported() Calendar {
	var years []Range

	for year := firstYear; year <= lastYear; year++ {
		switch n := len(years); {
		case !c.hasYear(year):
		case n > 0 && years[n-1].End == year-1:
			years[n-1].End = year
		default:
			years = append(years, Range{year, year, 1})
		}
	}

	if len(years) == 1 && years[0] == (Range{firstYear, lastYear, 1}) {
		years = nil
	}

	return Calendar{
		Minutes: ranges(c.minutes), Hours: ranges(c.hours), Days: ranges(c.days), Months: ranges(c.months), Weekdays: ranges(c.weekdays),
		Years: years,
	}
}

// ranges returns the values of bits: as one range with a step where there is one, else as runs.
func ranges(set uint64) (list []Range) {
	first, last := bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set)
	if n := bits.OnesCount64(set); n > 2 && (last-first)%(n-1) == 0 {
		step, same := (last-first)/(n-1), uint64(0)
		for value := first; value <= last; value += step {
			same |= 1 << value
		}

		if same == set {
			return []Range{{first, last, step}}
		}
	}

	for value := first; value <= last; value++ {
		switch n := len(list); {
		case set&(1<<value) == 0:
		case n > 0 && list[n-1].End == value-1:
			list[n-1].End = value
		default:
			list = append(list, Range{value, value, 1})
		}
	}

	return list
}

// next follows the search of Temporal's server (service/worker/scheduler, calendar.go) step
// by step, with its behaviour at clock changes.
func (c calendar) next(after time.Time, zone *time.Location) time.Time {
	local := after.In(zone)
	year, month, day := local.Date()
	hour, minute, _ := local.Clock()
	offset := time.Duration(0)

	if local.Add(-time.Hour).Hour() == hour { // the second time of a repeated hour
		offset = time.Hour
	}

	at := func(hour, minute int) time.Time { return time.Date(year, month, day, hour, minute, 0, 0, zone) }
	has := func(set uint64, value int) bool { return set&(1<<value) != 0 }
	minute++

search:
	for {
		if minute >= 60 {
			before, following := at(hour, 0), at(hour+1, 0)
			if hour, minute = hour+1, 0; offset == 0 && following.Sub(before) > time.Hour {
				hour, offset = hour-1, time.Hour
			} else {
				offset = 0
			}
		}

		if hour >= 24 {
			day, hour = day+1, 0
		}

		if day > daysIn(month, year) {
			month, day = month+1, 1
		}

		if month > time.December {
			year, month = year+1, time.January
		}

		switch {
		case year > lastYear:
			return time.Time{}
		case !c.hasYear(year):
			year, month, day, hour, minute, offset = year+1, time.January, 1, 0, 0, 0
			continue
		}

		for !has(c.months, int(month)) {
			if month, day, hour, minute, offset = month+1, 1, 0, 0, 0; month > time.December {
				continue search
			}
		}

		for !has(c.days, day) || !has(c.weekdays, int(at(hour, minute).Weekday())) {
			if day, hour, minute, offset = day+1, 0, 0, 0; day > daysIn(month, year) {
				continue search
			}
		}

		for !has(c.hours, hour) {
			if hour, minute, offset = hour+1, 0, 0; hour >= 24 {
				continue search
			}
		}

		for !has(c.minutes, minute) {
			if minute++; minute >= 60 {
				continue search
			}
		}

		if found := at(hour, minute); found.Hour() == hour {
			return found.Add(offset)
		}

		hour, minute = hour+1, 0
	}
}

func daysIn(month time.Month, year int) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// Expression returns the expression of a calendar in five fields; false: it has years, or
// values that an expression cannot contain.
func (c Calendar) Expression() (string, bool) {
	if len(c.Years) > 0 {
		return "", false
	}

	texts := make([]string, 0, len(fields))

	for i, field := range [][]Range{c.Minutes, c.Hours, c.Days, c.Months, c.Weekdays} {
		texts = append(texts, fieldText(field, fields[i]))
	}

	text := strings.Join(texts, " ")
	parsed, err := Parse(text)

	return text, err == nil && !parsed.either()
}

func fieldText(list []Range, b bounds) string {
	high := b.high
	if high == 7 {
		high = 6
	}

	items := make([]string, 0, len(list))

	for _, r := range list {
		step := max(r.Step, 1)

		switch end := max(r.End, r.Start); {
		case r.Start <= b.low && end >= high && step == 1:
			return "*"
		case r.Start <= b.low && end+step > high && step > 1:
			items = append(items, "*/"+strconv.Itoa(step))
		case end == r.Start:
			items = append(items, strconv.Itoa(r.Start))
		case step == 1:
			items = append(items, strconv.Itoa(r.Start)+"-"+strconv.Itoa(end))
		default:
			items = append(items, strconv.Itoa(r.Start)+"-"+strconv.Itoa(end)+"/"+strconv.Itoa(step))
		}
	}

	return strings.Join(items, ",")
}
