// Package wordlist holds the language of sources and pages to plain terms: it lists
// words and phrases that the glossary replaces, and finds them in Go, SQL, Markdown,
// scripts and the end-to-end suites. It must know nothing of what the code does.
package wordlist

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// plain splits identifiers at capitals and underscores, and lowers the case.
func plain(line string) string {
	var out strings.Builder

	runes := []rune(line)
	for i, r := range runes {
		switch {
		case r == '_' || unicode.IsSpace(r):
			r = ' '
		case i > 0 && unicode.IsUpper(r) && startsWord(runes, i):
			out.WriteByte(' ')
		}

		out.WriteRune(unicode.ToLower(r))
	}

	return out.String()
}

// startsWord reports whether the capital at i starts a word of an identifier: after a
// small letter or digit, and before one when capitals precede it, as in HTTPDoor.
func startsWord(runes []rune, i int) bool {
	before := runes[i-1]
	if unicode.IsLower(before) || unicode.IsDigit(before) {
		return true
	}

	return unicode.IsUpper(before) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
}

func TestPlain_splitsIdentifiers(t *testing.T) {
	t.Parallel()

	for in, want := range map[string]string{
		"func (d *TaskDesk) LetGo()": "func (d *task desk) let go()",
		"HTTPDoor":                   "http door",
		"told_before":                "told before",
		"indesk desktop":             "indesk desktop",
	} {
		require.Equal(t, want, plain(in))
	}

	require.True(t, matcher.MatchString(plain("chatDesk")))
	require.False(t, matcher.MatchString(plain("desktop")))
}

// TestSources_wordList fails for each line with a word of the list,
// and for each allowance that is not needed any more.
func TestSources_wordList(t *testing.T) {
	t.Parallel()

	var used [256]bool

	for _, path := range sources(t) {
		for number, line := range lines(t, path) {
			text := plain(line)

			word := matcher.FindString(text)
			if word == "" || isAllowed(path, line, &used) {
				continue
			}

			t.Errorf("%s:%d: %q: use %s: %s", path, number+1, word, suggestion(word), shorten(line))
		}
	}

	for i, a := range allowed {
		require.True(t, used[i], "nothing needs the allowance of %q in %q", a.phrase, a.path)
	}
}

// sources lists the tracked files that are checked, by their paths below the root.
func sources(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)

	var paths []string

	for _, path := range strings.Split(string(out), "\x00") {
		switch {
		case strings.Contains(path, "testdata/"): // recorded
		case filepath.Base(path) == "Makefile",
			slices.Contains([]string{".go", ".sql", ".md", ".mjs", ".js", ".ts", ".tsx", ".py", ".sh", ".tmpl"}, filepath.Ext(path)):
			paths = append(paths, path)
		}
	}

	require.NotEmpty(t, paths)

	return paths
}

func lines(t *testing.T, path string) []string {
	t.Helper()

	content, err := os.ReadFile(filepath.Join(root, path))
	if os.IsNotExist(err) {
		return nil // deleted, and not committed yet
	}

	require.NoError(t, err)

	return strings.Split(string(content), "\n")
}

func isAllowed(path, line string, used *[256]bool) bool {
	for i, a := range allowed {
		if strings.HasPrefix(path, a.path) && strings.Contains(strings.ToLower(line), a.phrase) {
			used[i] = true
			return true
		}
	}

	return false
}

func suggestion(word string) string {
	for _, r := range rules {
		if regexp.MustCompile(`^(?:` + r.pattern + `)$`).MatchString(word) {
			return r.use
		}
	}

	return "another word"
}

func shorten(line string) string {
	return fmt.Sprintf("%.120s", strings.TrimSpace(line))
}
