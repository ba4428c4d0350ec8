package permission

import (
	"strings"
	"unicode"
)

// matchesSubject is matchesGlob, except that a pattern for a URL matches origin and path
// separately: a path that looks like a host does not match. A pattern without a path
// matches every path.
func matchesSubject(pattern, subject string) bool {
	origin, path, isURL := splitURL(pattern)
	if !isURL {
		return matchesGlob(pattern, subject)
	}

	askedOrigin, askedPath, isURL := splitURL(subject)

	return isURL && matchesGlob(origin, askedOrigin) && (path == "" || matchesGlob(path, askedPath))
}

func splitURL(url string) (origin, path string, ok bool) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || strings.ContainsFunc(scheme, func(r rune) bool { return !unicode.IsLetter(r) && r != '*' }) {
		return "", "", false
	}

	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}

	return strings.ToLower(scheme + "://" + rest[:end]), rest[end:], true
}

// matchesGlob reports whether the whole text fits a pattern in which * matches any text, line
// breaks included.
func matchesGlob(pattern, text string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}

	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}

	for {
		part, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(text, part)
		}

		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}

		text, rest = after, more
	}
}
