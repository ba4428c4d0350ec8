package domain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// TextRule describes the text that PostgreSQL accepts, for error messages.
const TextRule = "must not contain NUL characters, halves of surrogate pairs or bytes that are not UTF-8"

// CleanText returns text that the database can store: valid UTF-8 without U+0000, which
// PostgreSQL rejects. Both are replaced by U+FFFD.
func CleanText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}

	return s
}

// FirstRunes returns the first n runes of a text.
func FirstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i] + "…"
		}

		n--
	}

	return text
}

// IsTextState reports whether a SQLSTATE means that PostgreSQL rejects a text: bytes that are
// not UTF-8 (22021), an escape that has no character (22P05), or no value of the type, such as
// JSON with half of a surrogate pair (22P02).
func IsTextState(state string) bool {
	return state == "22021" || state == "22P05" || state == "22P02"
}

// UnstorableText returns the error for text that PostgreSQL rejects.
func UnstorableText(err error) *Error {
	return &Error{Kind: Invalid, Code: CodeInvalidRequest, Message: "text " + TextRule, Err: err}
}

// isUnstorableText reports whether a statement failed because of a text.
func isUnstorableText(err error) bool {
	type stated interface {
		error
		SQLState() string
	}

	failed, ok := errors.AsType[stated](err)

	return ok && IsTextState(failed.SQLState())
}

// UnstorableIn returns the locations of the first texts in a JSON document that PostgreSQL
// rejects (see TextRule), below the location of the document. An invalid name is reported at
// its object. Invalid JSON has no locations.
func UnstorableIn(at string, document []byte) (locations []string) {
	const most = 20

	if !json.Valid(document) {
		return nil
	}

	var place jsonPlace

	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()

	for before := int64(0); len(locations) < most; before = decoder.InputOffset() {
		token, err := decoder.Token()
		if err != nil {
			return locations
		}

		if token == json.Delim('}') || token == json.Delim(']') {
			place = place[:len(place)-1]
			continue
		}

		text, isText := token.(string)
		wrong := isText && !storable(text, document[before:decoder.InputOffset()])

		if isName := place.next(text); isName {
			if wrong {
				locations = append(locations, place[:len(place)-1].below(at))
			}

			continue
		}

		if wrong {
			locations = append(locations, place.below(at))
		}

		if opens, ok := token.(json.Delim); ok {
			place = append(place, jsonLevel{object: opens == '{', n: -1})
		}
	}

	return locations
}

// jsonPlace is a place in a JSON document: the objects and arrays around it, the
// outermost first.
type jsonPlace []jsonLevel

type jsonLevel struct {
	object bool
	name   string // of the value, in an object
	named  bool   // the name was read, and its value follows
	n      int    // index of the value, in an array
}

// next advances to the next token, which is the name of a value or a value.
func (p jsonPlace) next(text string) (isName bool) {
	if len(p) == 0 {
		return false
	}

	top := &p[len(p)-1]
	if !top.object {
		top.n++
		return false
	}

	if top.named = !top.named; top.named {
		top.name = text
	}

	return top.named
}

// below returns the location as text, such as body.list[2].name.
func (p jsonPlace) below(at string) string {
	var out strings.Builder
	out.WriteString(at)

	for _, level := range p {
		if level.object {
			out.WriteString("." + level.name)
		} else {
			fmt.Fprintf(&out, "[%d]", level.n)
		}
	}

	return out.String()
}

// storable reports whether PostgreSQL accepts a text that has this encoded form in a JSON
// document.
func storable(text string, encoded []byte) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.Valid(encoded) && !hasLoneSurrogate(encoded)
}

// hasLoneSurrogate reports whether valid JSON has an escape of half of a surrogate pair.
func hasLoneSurrogate(encoded []byte) bool {
	const size = len(`\uffff`)

	for i := 0; i < len(encoded); i++ {
		if encoded[i] != '\\' {
			continue
		}

		first, ok := escaped(encoded[i:])
		if !ok || !utf16.IsSurrogate(first) {
			i++ // after the escaped character
			continue
		}

		second, ok := escaped(encoded[i+size:])
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}

		i += 2*size - 1
	}

	return false
}

// escaped parses an escape of a UTF-16 code unit.
func escaped(encoded []byte) (rune, bool) {
	if len(encoded) < 6 || encoded[0] != '\\' || encoded[1] != 'u' {
		return 0, false
	}

	unit, err := strconv.ParseUint(string(encoded[2:6]), 16, 16)

	return rune(unit), err == nil
}
