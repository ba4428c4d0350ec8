package terminal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// render returns a question with numbered options.
func (q Question) render(p *printer) string {
	var out strings.Builder

	title := Clean(strings.TrimSpace(q.Question))
	if header := oneLine(q.Header, 60); header != "" {
		title = header + ": " + title
	}

	out.WriteString("\n" + p.paint(cyan, "? ") + p.paint(bold, title) + "\n")

	width := 0
	for _, option := range q.Options {
		width = max(width, min(len([]rune(oneLine(option.Label, 0))), 40))
	}

	for i, option := range q.Options {
		line := fmt.Sprintf("  %2d  %s", i+1, oneLine(option.Label, 0))
		if text := oneLine(option.Description, 0); text != "" {
			gap := max(width-len([]rune(oneLine(option.Label, 0))), 0)
			line += strings.Repeat(" ", gap+2) + p.paint(dim, text)
		}

		out.WriteString(line + "\n")
	}

	return out.String()
}

// prompt describes the valid input.
func (q Question) prompt() string {
	switch {
	case len(q.Options) == 0:
		return "  your answer > "
	case q.MultiSelect:
		return "  numbers such as 1,3 or your own words > "
	default:
		return "  a number or your own words > "
	}
}

// parse parses typed text: numbers or labels of options, or else free text. Text after "="
// is always free text.
func (q Question) parse(typed string) (options []int, custom string, err error) {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		return nil, "", errors.New("an answer is required")
	}

	if text, literal := strings.CutPrefix(typed, "="); literal {
		if text = strings.TrimSpace(text); text == "" {
			return nil, "", errors.New("an answer is required after =")
		}

		return nil, text, nil
	}

	if len(q.Options) == 0 {
		return nil, typed, nil
	}

	for i, option := range q.Options {
		if strings.EqualFold(strings.TrimSpace(option.Label), typed) {
			return []int{i}, "", nil
		}
	}

	for _, word := range strings.FieldsFunc(typed, func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, typed, nil // words
		}

		if n < 1 || n > len(q.Options) {
			return nil, "", fmt.Errorf("option must be 1 to %d; type =%s for the text", len(q.Options), typed)
		}

		if !slices.Contains(options, n-1) {
			options = append(options, n-1)
		}
	}

	switch {
	case len(options) == 0:
		return nil, typed, nil
	case len(options) > 1 && !q.MultiSelect:
		return nil, "", errors.New("only one option can be selected")
	}

	return options, "", nil
}

// put sets the answer to the n-th question, from 0.
func (a *Answer) put(n int, options []int, custom string) {
	key := strconv.Itoa(n)

	if custom != "" {
		if a.Custom == nil {
			a.Custom = map[string]string{}
		}

		a.Custom[key] = custom

		return
	}

	if a.Selections == nil {
		a.Selections = map[string][]int{}
	}

	a.Selections[key] = options
}
