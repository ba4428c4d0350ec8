package model

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A server that streams tokens can split a character: its two \u escapes, or its bytes, arrive in
// two chunks. Text is therefore decoded to bytes in which surrogate halves are encoded (as three
// bytes each, which are not valid UTF-8), and joined afterwards.

// decoded returns the text of a valid JSON string including unpaired surrogates.
func decoded(raw string) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}

	raw = raw[1 : len(raw)-1]
	if strings.IndexByte(raw, '\\') < 0 {
		return raw
	}

	out := make([]byte, 0, len(raw))

	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}

		i++
		switch raw[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			code, _ := strconv.ParseUint(raw[i+1:i+5], 16, 16) // valid JSON has four digits there
			out = appendCode(out, rune(code))
			i += 4
		default: // a quote or a slash
			out = append(out, raw[i])
		}
	}

	return string(out)
}

// appendCode appends a code unit, including a surrogate half.
func appendCode(out []byte, code rune) []byte {
	if code < surrogates || code > surrogatesEnd {
		return utf8.AppendRune(out, code)
	}

	return append(out, 0xED, byte(0x80|code>>6&0x3F), byte(0x80|code&0x3F))
}

const (
	surrogates    = 0xD800
	lowSurrogates = 0xDC00
	surrogatesEnd = 0xDFFF
	halfSize      = 3 // bytes of a half
)

// half returns the half of a surrogate pair at the start of a text.
func half(text string) (code rune, ok bool) {
	if len(text) < halfSize || text[0] != 0xED || text[1] < 0xA0 || text[1] > 0xBF || text[2]&0xC0 != 0x80 {
		return 0, false
	}

	return 0xD000 | rune(text[1]&0x3F)<<6 | rune(text[2]&0x3F), true
}

// joiner joins the deltas of a text to valid UTF-8. An incomplete character at the end of a delta
// waits for the next one.
type joiner struct {
	rest string
}

const replacement = "\uFFFD"

// add returns the text that a delta completes.
func (j *joiner) add(piece string) string {
	if j.rest == "" && utf8.ValidString(piece) {
		return piece
	}

	text := j.rest + piece
	j.rest = ""

	var out strings.Builder

	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if r != utf8.RuneError || size > 1 {
			out.WriteString(text[:size])
			text = text[size:]

			continue
		}

		if waits(text) {
			j.rest = text
			break
		}

		char, size := joined(text)
		text = text[size:]

		out.WriteString(char)
	}

	return out.String()
}

// flush returns the replacement character for an incomplete character.
func (j *joiner) flush() string {
	if j.rest == "" {
		return ""
	}

	j.rest = ""

	return replacement
}

// waits reports whether a text is an incomplete character.
func waits(text string) bool {
	if code, is := half(text); is {
		return code < lowSurrogates && len(text) == halfSize
	}

	return !utf8.FullRuneInString(text)
}

// joined returns the character at the start of a text that is not valid UTF-8, and its length in
// bytes.
func joined(text string) (char string, size int) {
	high, is := half(text)
	if is {
		if low, is := half(text[halfSize:]); is && high < lowSurrogates && low >= lowSurrogates {
			return string((high-surrogates)<<10 | (low - lowSurrogates) + 0x10000), 2 * halfSize
		}

		return replacement, halfSize
	}

	size = 1
	for size < len(text) && !utf8.RuneStart(text[size]) {
		size++
	}

	return replacement, size
}
