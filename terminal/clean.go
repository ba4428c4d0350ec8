package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns text of a model, a tool or a server without the characters that control a
// terminal or disguise text.
func Clean(text string) string {
	var c cleaner
	return c.clean(text)
}

// cleaner removes control sequences from a text in pieces. It preserves line breaks and tabs,
// and replaces a carriage return within a line by a line break.
type cleaner struct {
	state   cleanState
	wasCR   bool
	partial []byte // an unfinished UTF-8 sequence
}

type cleanState int

const (
	plain      cleanState = iota
	escape                // after ESC
	control               // in CSI: ends with a letter
	command               // in OSC, DCS and similar: ends with BEL or ESC \
	commandEsc            // in a command, after ESC
)

func (c *cleaner) clean(text string) string {
	if len(c.partial) > 0 {
		text, c.partial = string(c.partial)+text, nil
	}

	var out strings.Builder

	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 && !utf8.FullRuneInString(text[i:]) {
			c.partial = []byte(text[i:])
			break
		}

		i += size

		c.put(&out, r)
	}

	return out.String()
}

func (c *cleaner) put(out *strings.Builder, r rune) {
	switch c.state {
	case escape:
		switch {
		case r == '[':
			c.state = control
		case strings.ContainsRune("]PX^_", r):
			c.state = command
		case r >= ' ' && r <= '/': // continues: ESC ( B
		default:
			c.state = plain
		}

		return
	case control:
		if r >= '@' && r <= '~' || r == '\n' {
			c.state = plain
		}

		return
	case command:
		switch r {
		case '\a', '\n':
			c.state = plain
		case 0x1b:
			c.state = commandEsc
		}

		return
	case commandEsc:
		c.state = plain
		return
	case plain:
	}

	if c.wasCR {
		c.wasCR = false

		if r != '\n' {
			out.WriteByte('\n')
		}
	}

	switch {
	case r == 0x1b:
		c.state = escape
	case r == 0x9b:
		c.state = control
	case r == '\r':
		c.wasCR = true
	case r == '\n' || r == '\t':
		out.WriteRune(r)
	case unicode.IsControl(r) || isDirection(r):
	default:
		out.WriteRune(r)
	}
}

// isDirection reports whether r reorders the text around it.
func isDirection(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// oneLine returns a clean text on one line of at most width characters; 0: unlimited.
func oneLine(text string, width int) string {
	text = strings.Join(strings.Fields(Clean(text)), " ")
	if runes := []rune(text); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}
