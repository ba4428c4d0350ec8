package domain

import "strings"

// CleanText makes text fit for the database: valid UTF-8 without U+0000, which
// PostgreSQL cannot keep. Both are replaced by U+FFFD.
func CleanText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}

	return s
}

// FirstRunes shortens a text to n runes.
func FirstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i] + "…"
		}

		n--
	}

	return text
}
