// Package cron parses cron expressions, explains them in words and computes when they are due
// in a time zone. Parse documents the grammar, Schedule.Next the rule for clock changes. No
// library supports both.
package cron

import (
	"fmt"
	"strings"
)

// Schedule is a parsed expression. The zero value is not valid.
type Schedule struct {
	minutes, hours, days, months, weekdays field
}

// field is the values of one field as bits, and whether the field restricts. A field that
// starts with * (also */2) never adds days to the days of the other day field.
type field struct {
	bits       uint64
	restricted bool
	starred    bool
}

func (f field) has(value int) bool { return f.bits&(1<<value) != 0 }

// Error reports which field of an expression is invalid, and why.
type Error struct {
	Field  string // minute, hour, day of month, month, day of week; empty: the whole
	Reason string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}

	return e.Field + ": " + e.Reason
}

// bounds are the allowed values of a field.
type bounds struct {
	name      string
	low, high int
	names     []string // of the values from low on, in lower case
}

var (
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	fields = [5]bounds{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of month", 1, 31, nil},
		{"month", 1, 12, months},
		{"day of week", 0, 7, weekdays},
	}
)

// shorthands stand for whole expressions.
var shorthands = map[string]string{
	"@hourly":  "0 * * * *",
	"@daily":   "0 0 * * *",
	"@weekly":  "0 0 * * 0",
	"@monthly": "0 0 1 * *",
	"@yearly":  "0 0 1 1 *",
}

// Parse reads an expression: five fields separated by spaces, or one of @hourly,
// @daily, @weekly, @monthly and @yearly. The error is an *Error.
func Parse(expression string) (Schedule, error) {
	text := strings.TrimSpace(expression)
	if strings.HasPrefix(text, "@") {
		known := shorthands[strings.ToLower(text)]
		if known == "" {
			return Schedule{}, &Error{Reason: "is none of @hourly, @daily, @weekly, @monthly and @yearly"}
		}

		text = known
	}

	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return Schedule{}, &Error{Reason: fmt.Sprintf(
			"has %d fields, not the five of minute, hour, day of month, month and day of week", len(parts))}
	}

	var parsed [5]field

	for i, part := range parts {
		bits, reason := fields[i].parse(part)
		if reason != "" {
			return Schedule{}, &Error{Field: fields[i].name, Reason: reason}
		}

		parsed[i] = field{bits: bits, restricted: part != "*" && part != "*/1", starred: strings.HasPrefix(part, "*")}
	}

	if parsed[4].has(7) { // 0 and 7 are both Sunday
		parsed[4].bits = parsed[4].bits&^(1<<7) | 1
	}

	s := Schedule{parsed[0], parsed[1], parsed[2], parsed[3], parsed[4]}
	if !s.everDue() {
		return Schedule{}, &Error{Field: "day of month", Reason: "no month of the expression has such a day"}
	}

	return s, nil
}

// longest is the maximum number of days of each month.
var longest = [13]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// either reports whether a day that matches one of the day fields is due.
func (s Schedule) either() bool { return !s.days.starred && !s.weekdays.starred }

// everDue reports whether any day matches. Each date falls on each day of the week in some
// year.
func (s Schedule) everDue() bool {
	if s.either() {
		return true
	}

	for month := 1; month <= 12; month++ {
		for day := 1; s.months.has(month) && day <= longest[month]; day++ {
			if s.days.has(day) {
				return true
			}
		}
	}

	return false
}
