package search

import (
	"errors"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"

	"everloop/activities/tools"
	globs "everloop/domain/pattern"
)

// compilePattern returns the expression that lines are matched against.
func compilePattern(pattern string, fold, multiline bool) (*regexp.Regexp, error) {
	flags := "m"
	if fold {
		flags += "i"
	}

	if multiline {
		flags += "s"
	}

	form, err := globs.Compile("(?" + flags + ")" + translate(pattern, goClass))
	if err == nil {
		return form.Regexp, nil
	}

	invalid, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return nil, tools.Refuse("the pattern is not a valid regular expression")
	}

	if invalid.Code == syntax.ErrInvalidPerlOp || strings.Contains(pattern, "(?=") || strings.Contains(pattern, "(?!") ||
		strings.Contains(pattern, "(?<") {
		return nil, tools.Refuse("the pattern uses look-around or another form that RE2 does not have; say it without, or filter with Bash")
	}

	if invalid.Code == syntax.ErrInvalidEscape {
		return nil, tools.Refuse(
			"the pattern is not a valid regular expression: %s in %s (RE2 has no backreferences)", invalid.Code, tools.Quote(invalid.Expr),
		)
	}

	return nil, tools.Refuse("the pattern is not a valid regular expression: %s in %s", invalid.Code, tools.Quote(invalid.Expr))
}

// translate replaces each escape of a pattern with the result of class, which receives the letter after the
// backslash and whether it is in a character class.
func translate(pattern string, class func(letter byte, inClass bool) string) string {
	var out strings.Builder

	inClass := false

	for i := 0; i < len(pattern); i++ {
		char := pattern[i]
		switch {
		case char == '\\' && i+1 < len(pattern):
			i++
			out.WriteString(class(pattern[i], inClass))

			continue
		case char == '[' && !inClass:
			inClass = true
			// A bracket right behind the opening one is a member.
			for _, lead := range []string{"^]", "^", "]"} {
				if strings.HasPrefix(pattern[i+1:], lead) {
					out.WriteByte(char)
					out.WriteString(lead)
					i += len(lead)
					char = 0

					break
				}
			}

			if char == 0 {
				continue
			}
		case char == '[' && strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				out.WriteString(pattern[i : i+end+2])
				i += end + 1

				continue
			}
		case char == ']':
			inClass = false
		}

		out.WriteByte(char)
	}

	return out.String()
}

// ripgrepClass limits \b and \B to ASCII words, as in Go, so that ripgrep finds every file in which Go matches.
func ripgrepClass(letter byte, inClass bool) string {
	if !inClass && (letter == 'b' || letter == 'B') {
		return `(?-u:\` + string(letter) + `)`
	}

	return `\` + string(letter)
}

// goClass extends \d, \w and \s to letters, digits and spaces of all scripts, as in ripgrep.
func goClass(letter byte, inClass bool) string {
	const word, space = `\p{L}\p{M}\p{Nd}\p{Pc}`, `\s\x{0b}\x{85}\p{Z}`

	switch {
	case letter == 'd':
		return `\p{Nd}`
	case letter == 'D':
		return `\P{Nd}`
	case letter == 'w' && inClass:
		return word
	case letter == 'w':
		return "[" + word + "]"
	case letter == 'W' && !inClass:
		return "[^" + word + "]"
	case letter == 's' && inClass:
		return space
	case letter == 's':
		return "[" + space + "]"
	case letter == 'S' && !inClass:
		return "[^" + space + "]"
	default:
		return `\` + string(letter)
	}
}

// nameFilter chooses files by a glob as ripgrep takes it: one without a slash is
// matched against the name, at any depth; one that starts with ! leaves files
// and whole directories out.
type nameFilter struct {
	source string // "" chooses every file
	glob   string
	negate bool
	base   bool // match the name and not the path
}

func newNameFilter(source string) (nameFilter, error) {
	if source == "" {
		return nameFilter{}, nil
	}

	f := nameFilter{source: source, glob: source}
	f.glob, f.negate = strings.CutPrefix(f.glob, "!")
	anchored := strings.HasPrefix(f.glob, "/")
	f.glob = strings.Trim(f.glob, "/")

	f.base = !anchored && !strings.Contains(f.glob, "/")
	if f.glob == "" || !globs.ValidGlob(f.glob) {
		return nameFilter{}, tools.Refuse("%s is not a valid glob", tools.Quote(source))
	}

	return f, nil
}

func (f nameFilter) matches(name string) bool {
	if f.base {
		name = path.Base(name)
	}

	return globs.Match(f.glob, name)
}

// file reports whether a file is searched.
func (f nameFilter) file(name string) bool {
	return f.source == "" || f.matches(name) != f.negate
}

// dir reports whether a directory is looked into.
func (f nameFilter) dir(name string) bool {
	return f.source == "" || !f.negate || !f.matches(name)
}
