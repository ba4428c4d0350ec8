package skillpack

import (
	"fmt"
	"strings"
)

// Error lists the problems of a package for its author.
type Error struct{ Problems []string }

func (e *Error) Error() string { return strings.Join(e.Problems, "; ") }

// problems collects problems, up to a readable number.
type problems []string

const maxProblems = 20

func (p *problems) addf(format string, args ...any) {
	if len(*p) < maxProblems {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}

	return &Error{p}
}

func failf(format string, args ...any) error {
	return &Error{[]string{fmt.Sprintf(format, args...)}}
}

// shown quotes and shortens a text of the author.
func shown(word string) string {
	const most = 80
	if runes := []rune(word); len(runes) > most {
		word = string(runes[:most]) + "…"
	}

	return fmt.Sprintf("%q", word)
}
