package tools

import (
	"fmt"
	"strings"
)

// repair escapes what models forget to escape in the strings of JSON: control characters,
// and backslashes before letters that need none, as in a regular expression. It reports
// false when there is nothing to repair, or more than one reading.
func repair(text string) (repaired string, ok bool) {
	var out strings.Builder

	for rest := text; rest != ""; {
		quote := strings.IndexByte(rest, '"')
		if quote < 0 {
			out.WriteString(rest)
			break
		}

		out.WriteString(rest[:quote])

		end := stringEnd(rest[quote:])
		if end < 0 {
			return "", false
		}

		literal, unambiguous := repairString(rest[quote : quote+end])
		if !unambiguous {
			return "", false
		}

		out.WriteString(literal)

		rest = rest[quote+end:]
	}

	return out.String(), out.String() != text
}

// stringEnd returns the length of the string literal that a text starts with; -1: it does not
// end.
func stringEnd(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}

	return -1
}

// repairString repairs a string literal. A backslash that is no escape shows that the text
// is not escaped; what looks like an escape next to it may be none.
func repairString(literal string) (repaired string, unambiguous bool) {
	var out strings.Builder

	bare, escaped := false, false

	for i := 0; i < len(literal); i++ {
		c := literal[i]

		switch {
		case c < ' ':
			fmt.Fprintf(&out, `\u%04x`, c)
		case c != '\\':
			out.WriteByte(c)
		default:
			i++ // the literal ends with a quote, so there is a next byte

			switch next := literal[i]; {
			case next == '\'' && strings.HasPrefix(literal[i+1:], "'"):
				return "", false // an apostrophe, or the end of a quoted word in a shell
			case next == '\'':
				out.WriteByte(next)
			case strings.IndexByte(`"\/bfnrtu`, next) >= 0:
				escaped = escaped || next != '"'

				out.WriteByte(c)
				out.WriteByte(next)
			case next < ' ':
				return "", false
			default:
				bare = true

				out.WriteString(`\\`)
				out.WriteByte(next)
			}
		}
	}

	return out.String(), !bare || !escaped
}
