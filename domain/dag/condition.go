package dag

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// condition is the compiled condition of an edge: an expression of
// https://expr-lang.org that gives true or false, in which references stand for values.
type condition struct {
	program    *vm.Program
	references []Reference // ref0, ref1, … of the program
}

func compileCondition(text string) (condition, error) {
	template, err := ParseTemplate(text)
	if err != nil {
		return condition{}, err
	}

	var (
		code  strings.Builder
		quote rune
	)

	values := types.Map{}

	for _, s := range template {
		if s.Reference == nil {
			code.WriteString(s.Text)
			quote = openQuote(quote, s.Text)

			continue
		}

		if quote != 0 {
			return condition{}, fmt.Errorf("%s is within quotes, where it would be text; write it without", s.Reference)
		}

		name := variable(len(values))
		values[name] = types.Any
		code.WriteString(" " + name + " ")
	}

	if strings.TrimSpace(code.String()) == "" {
		return condition{}, errors.New("it is empty")
	}

	program, err := expr.Compile(code.String(), expr.Env(values), expr.AsBool(), expr.MaxNodes(500))
	if err != nil {
		return condition{}, firstLine(err)
	}

	return condition{program, template.References()}, nil
}

func variable(n int) string { return fmt.Sprintf("ref%d", n) }

func firstLine(err error) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(first)
}

// Holds evaluates the condition of an edge with the values of its references.
func Holds(text string, value func(Reference) any) (bool, error) {
	c, err := compileCondition(text)
	if err != nil {
		return false, err
	}

	values := make(map[string]any, len(c.references))
	for i, r := range c.references {
		values[variable(i)] = value(r)
	}

	result, err := expr.Run(c.program, values)
	if err != nil {
		return false, firstLine(err)
	}

	holds, _ := result.(bool)

	return holds, nil
}

// openQuote returns the quote that is open behind a text, given the one before it; 0: none.
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
