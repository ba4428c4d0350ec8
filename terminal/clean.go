package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text of a model, a tool or a server safe to show: it takes out
// everything by which text could give orders to a terminal or disguise itself.
func Clean(text string) string {
	var c cleaner
	return c.clean(text)
}

// cleaner takes control sequences out of a text that comes in pieces. Line ends
// and tabs stay; a carriage return within a line becomes a line end.
type cleaner struct {
	state   cleanState
	wasCR   bool
	partial []byte // an unfinished UTF-8 sequence
}

type cleanState int

const (
	plain      cleanState = iota
	escape                // after ESC
	control               // within CSI: ends with a letter
	command               // within OSC, DCS and the like: ends with BEL or ESC \
	commandEsc            // there, after ESC
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
		case r >= ' ' && r <= '/': // goes on: ESC ( B
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

// isDirection reports whether r is one of the characters that reorder what stands around them.
func isDirection(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// oneLine cleans a text, puts it on one line and cuts it at width characters.
func oneLine(text string, width int) string {
	text = strings.Join(strings.Fields(Clean(text)), " ")
	if runes := []rune(text); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}

	return text
}
