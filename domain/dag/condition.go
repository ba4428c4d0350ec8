package dag

import (
	"errors"
	"fmt"
	"strings"

	"everloop/domain/expression"
)

// condition is the condition of an edge: an expression of https://expr-lang.org that returns
// true or false, in which variables represent references.
type condition struct {
	code       string
	references []Reference // ref0, ref1, … of the code
}

func parseCondition(text string) (condition, error) {
	template, err := ParseTemplate(text)
	if err != nil {
		return condition{}, err
	}

	var (
		code  strings.Builder
		quote rune
		c     condition
	)

	for _, s := range template {
		if s.Reference == nil {
			code.WriteString(s.Text)
			quote = openQuote(quote, s.Text)

			continue
		}

		if quote != 0 {
			return condition{}, fmt.Errorf("%s is within quotes, where it would be text; write it without", s.Reference)
		}

		code.WriteString(" " + variable(len(c.references)) + " ")
		c.references = append(c.references, *s.Reference)
	}

	if c.code = code.String(); strings.TrimSpace(c.code) == "" {
		return condition{}, errors.New("it is empty")
	}

	return c, nil
}

func checkCondition(text string) error {
	c, err := parseCondition(text)
	if err != nil {
		return err
	}

	names := make([]string, len(c.references))
	for i := range c.references {
		names[i] = variable(i)
	}

	return expression.Check(c.code, names)
}

func variable(n int) string { return fmt.Sprintf("ref%d", n) }

// Holds evaluates the condition of an edge with the values of its references, within a budget
// that conditions of one step of a run share.
func Holds(text string, value func(Reference) any, budget *expression.Budget) (bool, error) {
	c, err := parseCondition(text)
	if err != nil {
		return false, err
	}

	values := make(map[string]any, len(c.references))
	for i, r := range c.references {
		values[variable(i)] = value(r)
	}

	return expression.Holds(c.code, values, budget)
}

// openQuote returns the quote that is open after a text, given the one before it; 0: none.
func openQuote(open rune, text string) rune {
	skip := false

	for _, c := range text {
		switch {
		case skip:
			skip = false
		case c == '\\' && open != 0 && open != '`':
			skip = true
		case open == 0 && (c == '"' || c == '\'' || c == '`'):
			open = c
		case c == open:
			open = 0
		}
	}

	return open
}
