package mock

import (
	"crypto/rand"
	"strings"
	"unicode"
	"unicode/utf8"
)

// split cuts a text into pieces: of so many characters, or (size 0) of a word
// with the space after it. Joined, they are the text.
func split(text string, size int) []string {
	var pieces []string

	for text != "" {
		n := wordLength(text)
		if size > 0 {
			n = prefixLength(text, size)
		}

		pieces = append(pieces, text[:n])
		text = text[n:]
	}

	return pieces
}

// wordLength is the length in bytes of the first word and the space after it.
func wordLength(text string) int {
	space := strings.IndexFunc(text, unicode.IsSpace)
	if space < 0 {
		return len(text)
	}

	rest := strings.TrimLeftFunc(text[space:], unicode.IsSpace)

	return len(text) - len(rest)
}

// prefixLength is the length in bytes of the first so many characters.
func prefixLength(text string, characters int) int {
	n := 0
	for range characters {
		if n == len(text) {
			break
		}

		_, width := utf8.DecodeRuneInString(text[n:])
		n += width
	}

	return n
}

// fragmentSize is the size of a piece of tool-call arguments: a few characters,
// as tokens are.
func fragmentSize(chunk int) int {
	if chunk > 0 {
		return chunk
	}

	return 6
}

// id gives the call's id. It is random unless ordered, as on real servers: two
// conversations with the same words have different calls.
func (c *Call) id() string {
	if c.ID != "" {
		return c.ID
	}

	return "call_" + rand.Text()[:24]
}

// text is the JSON text of the arguments.
func (c *Call) text() string {
	switch {
	case c.Raw != nil:
		return *c.Raw
	case len(c.Arguments) == 0:
		return "{}"
	}

	return string(c.Arguments)
}
