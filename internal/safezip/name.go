package safezip

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of names, in bytes: the limits of file systems.
const (
	maxName    = 4096
	maxElement = 255
)

// CheckName returns the problem of a relative path, with slashes, below a target directory;
// empty: none. It accepts plain names only: names that systems interpret differently, such as
// backslashes, drive letters and "..", are rejected.
func CheckName(name string) (problem string) {
	switch {
	case name == "":
		return "has no name"
	case len(name) > maxName:
		return "has a name that is too long"
	case !utf8.ValidString(name):
		return "has a name that is not UTF-8"
	case strings.ContainsRune(name, '\\'):
		return "has a backslash in its name"
	case strings.HasPrefix(name, "/"):
		return "has an absolute path"
	case len(name) > 1 && name[1] == ':' && isLetter(name[0]):
		return "has a drive letter in its name"
	}

	for _, r := range name {
		if unicode.IsControl(r) {
			return "has a control character in its name"
		}
	}

	for element := range strings.SplitSeq(name, "/") {
		switch {
		case element == "":
			return "has an empty part in its path"
		case element == "." || element == "..":
			return "leaves its directory"
		case len(element) > maxElement:
			return "has a name that is too long"
		}
	}

	return ""
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// folded returns equal text for names that are equal on some file system.
func folded(name string) string { return strings.ToLower(norm.NFC.String(name)) }
