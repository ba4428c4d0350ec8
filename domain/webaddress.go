package domain

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsWebAddress reports whether a URL is a web address, not data or a path.
func IsWebAddress(url string) bool {
	scheme, rest, ok := strings.Cut(url, "://")

	return ok && rest != "" && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// MentionsAddress reports whether a text contains a web address as a whole: an address
// that only starts with it, or ends with it, is another address. The fragment, which no
// server receives, and the slash after a bare host do not count.
func MentionsAddress(text, address string) bool {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host == "" {
		return false
	}

	whole, _, _ := strings.Cut(strings.TrimSpace(address), "#")
	if containsWhole(text, whole) {
		return true
	}

	if u.Path == "/" && u.RawQuery == "" {
		return containsWhole(text, strings.TrimSuffix(whole, "/"))
	}

	return u.Path == "" && u.RawQuery == "" && containsWhole(text, whole+"/")
}

// containsWhole reports whether the text contains the address between two characters that
// separate addresses from prose.
func containsWhole(text, address string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], address)
		if at < 0 {
			return false
		}

		start, end := from+at, from+at+len(address)
		if startsAddress(text[:start]) && endsAddress(text[end:]) {
			return true
		}

		from = end
	}
}

// startsAddress reports whether an address can start after the text.
func startsAddress(before string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)

	return before == "" || unicode.IsSpace(last) || strings.ContainsRune("\"'`<>()[]{}|*_,;:=。，（「", last)
}

// endsAddress reports whether an address can end before the text. Punctuation ends it only
// where it is not followed by more of the address.
func endsAddress(after string) bool {
	rest := strings.TrimLeft(after, ".,;:!?*_)")
	next, _ := utf8.DecodeRuneInString(rest)

	if rest == "" || unicode.IsSpace(next) {
		return true
	}

	return strings.ContainsRune("\"'`<>)]}|\\#。，）」", next)
}
