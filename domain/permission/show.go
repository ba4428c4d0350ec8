package permission

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Bounds of a displayed call, in characters: of one argument, and of all.
const (
	maxShownArgument = 6_000
	maxShown         = 8_000
)

// Show describes a call with all of its arguments, for a person who decides about it. An
// argument of several lines is indented, so that it cannot imitate another argument. Invisible
// characters are marked, and a long text is cut in the middle.
func Show(name string, raw json.RawMessage) string {
	head := markLine(name)
	args := parseArguments(raw)

	if args.repeated || len(args.members) == 0 {
		return head + "\n" + field("arguments", string(raw), maxShown)
	}

	names := make([]string, 0, len(args.members))
	for name := range args.members {
		names = append(names, name)
	}

	slices.SortFunc(names, compareNames)

	values := args.byName()
	limit := min(maxShownArgument, max(maxShown/len(names), 200))

	for _, name := range names {
		head += "\n" + field(name, values[name], limit)
	}

	return Cut(head, maxShown+maxShownArgument)
}

// compareNames sorts arguments that the call acts on before descriptive ones.
func compareNames(a, b string) int {
	if byRank := slices.Index(descriptions, a) - slices.Index(descriptions, b); byRank != 0 {
		return byRank
	}

	return strings.Compare(a, b)
}

// descriptions are arguments that only describe a call. They are sorted last.
var descriptions = []string{"description", "reason"}

var plainName = regexp.MustCompile(`^[\p{L}\p{N}_.-]+$`)

func field(name, value string, limit int) string {
	if !plainName.MatchString(name) {
		name = markLine(fmt.Sprintf("%q", name))
	}

	value = Cut(Mark(value), limit)
	if !strings.Contains(value, "\n") {
		return name + ": " + value
	}

	return name + ":\n    " + strings.ReplaceAll(value, "\n", "\n    ")
}

func markLine(text string) string { return strings.ReplaceAll(Mark(text), "\n", "⟨U+000A⟩") }

// Mark replaces invisible characters, and characters that change how others are displayed, by
// their code points. Blanks, tabs and line ends are preserved.
func Mark(text string) string {
	if !strings.ContainsFunc(text, hidden) && !strings.ContainsRune(text, unicode.ReplacementChar) {
		return text
	}

	var out strings.Builder

	for i, r := range text {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&out, "⟨0x%02X⟩", text[i])
		case hidden(r):
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
		default:
			out.WriteRune(r)
		}
	}

	return out.String()
}

// hidden reports whether a character is invisible or changes how others are displayed.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == ' ':
		return false
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Zs,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Noncharacter_Code_Point):
		return true
	default:
		return r == '\u2800' || r >= 0xE0000 && r <= 0xE0FFF
	}
}

// Cut shortens a text to a number of characters: the middle is replaced by the count of omitted
// characters.
func Cut(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}

	head, tail := limit*2/3, limit/3
	left := len(runes) - head - tail

	return string(runes[:head]) + fmt.Sprintf("\n[… %d characters are left out here …]\n", left) + string(runes[len(runes)-tail:])
}
