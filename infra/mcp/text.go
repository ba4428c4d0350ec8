package mcp

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Maximum lengths of a server's texts, in characters.
const (
	maxDescription = 2000
	maxTitle       = 60
	maxWords       = 500 // of an error or of progress
)

// cleanText sanitises untrusted text for a prompt, a terminal and the database: valid UTF-8
// without control characters other than line breaks and tabs, and without characters that hide or
// reverse text.
func cleanText(s string, limit int) string {
	if len(s) > limit*utf8.UTFMax {
		s = s[:limit*utf8.UTFMax] // truncate before the conversion: it can be megabytes
	}

	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return -1
		case unicode.IsControl(r), hidden(r):
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(s, "\uFFFD"))

	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) <= limit {
		return s
	}

	for i := range s {
		if limit == 1 {
			return s[:i] + "…"
		}

		limit--
	}

	return s
}

// hidden reports whether a character is invisible or changes the direction of the following text.
func hidden(r rune) bool {
	return r >= 0x200B && r <= 0x200F || r >= 0x202A && r <= 0x202E || r >= 0x2060 && r <= 0x2069 ||
		r == 0xFEFF || r >= 0xE0000 && r <= 0xE007F
}

// oneLine joins the lines of a text.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
