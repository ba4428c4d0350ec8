package search

import (
	"io"
	"strconv"
	"unicode/utf8"
)

// jsonLexer reads one JSON object that comes in pieces, without keeping it. It is
// for what a known program writes: of malformed input it makes something, and never
// fails. The zero value is ready.
type jsonLexer struct {
	open    []byte   // the objects and arrays around this place: { or [
	keys    []string // of the member of each of them; "" in an array
	inKey   bool     // a key is expected or read
	key     []byte
	inText  bool   // within a string
	escape  []byte // that has begun
	plain   []byte // characters on their way to to
	scalar  []byte // a number, true, false or null, that has begun
	to      io.Writer
	stopped bool
}

const (
	maxJSONDepth = 32
	maxJSONWord  = 64 // bytes of a key, and of a number
	maxPlain     = 4096
)

// read reads the next piece. member is called before each value that is no object,
// with the names that lead to it, and returns what its characters are written to;
// a scalar is written at once. It is called for each array too; false ends the
// reading.
func (l *jsonLexer) read(p []byte, member func(at []string) (to io.Writer, more bool)) (more bool) {
	for len(p) > 0 && !l.stopped {
		if l.inText {
			p = l.text(p)
			continue
		}

		l.mark(p[0], member)
		p = p[1:]
	}

	return !l.stopped
}

// text reads characters of a string.
func (l *jsonLexer) text(p []byte) (rest []byte) {
	plain := l.plain[:0]
	for len(p) > 0 {
		if len(plain) > maxPlain {
			l.give(plain)
			plain = plain[:0]
		}

		switch {
		case len(l.escape) > 0:
			l.escape = append(l.escape, p[0])
			if length := lengthOfEscape(l.escape); len(l.escape) == length {
				plain = appendUnescaped(plain, l.escape)
				l.escape = l.escape[:0]
			}

			p = p[1:]
		case p[0] == '"':
			l.give(plain)
			l.plain, l.inText = plain, false

			return p[1:]
		case p[0] != '\\':
			plain = append(plain, p[0])
			p = p[1:]
		default:
			if length := lengthOfEscape(p); length <= len(p) {
				plain = appendUnescaped(plain, p[:length])
				p = p[length:]

				continue
			}

			l.escape = append(l.escape, p...)
			p = nil
		}
	}

	l.give(plain)
	l.plain = plain

	return nil
}

// lengthOfEscape gives how many bytes an escape has, by what there is of it.
func lengthOfEscape(p []byte) int {
	if len(p) > 1 && p[1] == 'u' {
		return len(`\u0000`)
	}

	return len(`\n`)
}

func (l *jsonLexer) give(p []byte) {
	switch {
	case len(p) == 0:
	case l.inKey:
		l.key = append(l.key, p[:min(len(p), maxJSONWord-len(l.key))]...)
	default:
		_, _ = l.to.Write(p)
	}
}

// appendUnescaped adds what an escape stands for. Half of a pair of surrogates
// becomes U+FFFD: no character needs one in UTF-8.
func appendUnescaped(to, escape []byte) []byte {
	switch escape[1] {
	case 'b':
		return append(to, '\b')
	case 'f':
		return append(to, '\f')
	case 'n':
		return append(to, '\n')
	case 'r':
		return append(to, '\r')
	case 't':
		return append(to, '\t')
	case 'u':
		char, err := strconv.ParseUint(string(escape[2:]), 16, 16)
		if err != nil {
			char = utf8.RuneError
		}

		return utf8.AppendRune(to, rune(char))
	}

	return append(to, escape[1])
}

// mark reads a character outside of strings.
func (l *jsonLexer) mark(char byte, member func(at []string) (io.Writer, bool)) {
	switch char {
	case '{', '[':
		if char == '[' {
			_, more := member(l.keys)
			l.stopped = !more
		}

		if len(l.open) == maxJSONDepth {
			l.stopped = true
			return
		}

		l.open, l.keys = append(l.open, char), append(l.keys, "")
		l.inKey, l.key = char == '{', l.key[:0]
	case '}', ']':
		l.endScalar(member)

		if n := len(l.open); n > 0 {
			l.open, l.keys = l.open[:n-1], l.keys[:n-1]
		}

		l.inKey = false
	case ',':
		l.endScalar(member)
		n := len(l.open)
		l.inKey, l.key = n > 0 && l.open[n-1] == '{', l.key[:0]
	case ':':
		if n := len(l.keys); n > 0 {
			l.keys[n-1] = string(l.key)
		}

		l.inKey = false
	case '"':
		l.inText = true
		if !l.inKey {
			to, more := member(l.keys)
			l.to, l.stopped = to, !more
		}
	case ' ', '\t', '\r':
	default:
		if len(l.scalar) < maxJSONWord {
			l.scalar = append(l.scalar, char)
		}
	}
}

func (l *jsonLexer) endScalar(member func(at []string) (io.Writer, bool)) {
	if len(l.scalar) == 0 {
		return
	}

	if to, more := member(l.keys); more {
		_, _ = to.Write(l.scalar)
	} else {
		l.stopped = true
	}

	l.scalar = l.scalar[:0]
}
