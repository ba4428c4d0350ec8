package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

var (
	monthWords = []string{
		"", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
	}
	weekdayWords = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// maxTimes bounds the times of a day that are listed individually.
const maxTimes = 6

// String returns an explanation of the expression in words.
func (s Schedule) String() string {
	text := s.times()
	switch {
	case s.days.restricted && s.weekdays.restricted:
		joint := "and only"
		if s.either() {
			joint = "or"
		}

		text += fmt.Sprintf(
			", on day %s of the month %s on %s",
			s.days.words(31, strconv.Itoa),
			joint,
			s.weekdays.words(6, word(weekdayWords)),
		)
	case s.days.restricted:
		text += ", on day " + s.days.words(31, strconv.Itoa) + " of the month"
	case s.weekdays.restricted:
		text += ", on " + s.weekdays.words(6, word(weekdayWords))
	}

	if s.months.restricted {
		text += ", in " + s.months.words(12, word(monthWords))
	}

	return text
}

// times describes the times of day.
func (s Schedule) times() string {
	hours, minutes := bits.OnesCount64(s.hours.bits), bits.OnesCount64(s.minutes.bits)
	switch {
	case hours*minutes <= maxTimes:
		var times []string

		for hour := range 24 {
			for minute := range 60 {
				if s.hours.has(hour) && s.minutes.has(minute) {
					times = append(times, fmt.Sprintf("%02d:%02d", hour, minute))
				}
			}
		}

		return "At " + joined(times)
	case minutes == 60 && hours == 24:
		return "Every minute"
	case minutes == 60:
		return "Every minute of hour " + s.hours.words(23, strconv.Itoa)
	case hours == 24:
		return "At minute " + s.minutes.words(59, strconv.Itoa) + " of every hour"
	default:
		return "At minute " + s.minutes.words(59, strconv.Itoa) + " of hour " + s.hours.words(23, strconv.Itoa)
	}
}

func word(of []string) func(int) string {
	return func(value int) string { return of[value] }
}

// words lists the values of a field up to high; three and more consecutive values are a range.
func (f field) words(high int, name func(int) string) string {
	var list []string

	for from := 0; from <= high; from++ {
		if !f.has(from) {
			continue
		}

		to := from
		for to < high && f.has(to+1) {
			to++
		}

		switch to - from {
		case 0:
			list = append(list, name(from))
		case 1:
			list = append(list, name(from), name(to))
		default:
			list = append(list, name(from)+" to "+name(to))
		}

		from = to
	}

	return joined(list)
}

func joined(list []string) string {
	if len(list) == 1 {
		return list[0]
	}

	last := len(list) - 1

	return strings.Join(list[:last], ", ") + " and " + list[last]
}
