package sessions

import (
	"strings"
	"unicode/utf8"

	"everloop/domain"
)

// Title returns the first line of a message, cut to 80 characters: the intent of a
// session, the label of a checkpoint, the preview of a queued message.
func Title(parts []domain.ContentPart) string {
	const most = 80

	for _, p := range parts {
		line, _, _ := strings.Cut(strings.TrimSpace(p.Text), "\n")
		if line == "" {
			continue
		}

		if utf8.RuneCountInString(line) > most {
			return string([]rune(line)[:most-1]) + "…"
		}

		return line
	}

	return ""
}
