package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// parse parses one field: a list of *, values and ranges, each with an optional step.
func (b bounds) parse(text string) (bits uint64, reason string) {
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			return 0, "has an empty item in its list"
		}

		more, reason := b.item(item)
		if reason != "" {
			return 0, reason
		}

		bits |= more
	}

	return bits, ""
}

func (b bounds) item(text string) (bits uint64, reason string) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1

	if stepped {
		var ok bool
		if step, ok = number(stepText); !ok || step < 1 || step > b.high {
			return 0, fmt.Sprintf("the step of %q is not a number from 1 to %d", shown(text), b.high)
		}
	}

	first, last, ranged := strings.Cut(span, "-")
	if ranged && (first == "" || last == "" || strings.Contains(last, "-")) {
		return 0, fmt.Sprintf("the range of %q is not two values, as in 1-5", shown(text))
	}

	from, to := b.low, b.high
	if span == "*" && b.high == 7 {
		to = 6 // Sunday once
	}

	if span != "*" {
		var ok bool
		if from, ok = b.value(first); !ok {
			return 0, b.outside(first)
		}

		switch {
		case ranged:
			if to, ok = b.value(last); !ok {
				return 0, b.outside(last)
			}

			if b.high == 7 && to == 0 && from > 0 {
				to = 7 // FRI-SUN
			}
		case !stepped:
			to = from
		case b.high == 7:
			to = 6
		}
	}

	if from > to {
		return 0, fmt.Sprintf("the range of %q begins after its end", shown(text))
	}

	for value := from; value <= to; value += step {
		bits |= 1 << value
	}

	return bits, ""
}

// value parses a number or a name.
func (b bounds) value(text string) (int, bool) {
	for i, name := range b.names {
		if strings.EqualFold(name, text) {
			return b.low + i, true
		}
	}

	value, ok := number(text)

	return value, ok && value >= b.low && value <= b.high
}

func (b bounds) outside(text string) string {
	if b.names == nil {
		return fmt.Sprintf("%q is not a number from %d to %d", shown(text), b.low, b.high)
	}

	return fmt.Sprintf("%q is neither a number from %d to %d nor one of %s to %s", shown(text), b.low, b.high,
		strings.ToUpper(b.names[0]), strings.ToUpper(b.names[len(b.names)-1]))
}

// number parses a text that consists only of digits.
func number(text string) (int, bool) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}

	value, err := strconv.Atoi(text)

	return value, err == nil
}

// shown shortens the part of an expression that an error quotes.
func shown(text string) string {
	if len(text) > 20 {
		text = text[:20] + "…"
	}

	return strings.ToValidUTF8(text, "?")
}
