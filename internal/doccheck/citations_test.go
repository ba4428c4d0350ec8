package doccheck_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	pageName = regexp.MustCompile(`([\w./-]*\w\.md)\b(#[\w-]+)?`)
	chapter  = regexp.MustCompile(`(?i)\b(?:sections?|decisions?|chapter|number) \d|§`)
)

// formats are files of formats that the service reads from its users and operators.
var formats = []string{"SKILL.md", "prompt.md"}

// citation gives the fault of a comment's references to documents, or "": a page that it
// names is in the repository, from its root or next to the source, and has the heading of
// the anchor; a chapter by its number is no reference.
func citation(source, line string, exists func(page string) bool, headings func(page string) []string) string {
	if !isComment(line) {
		return ""
	}

	for _, found := range pageName.FindAllStringSubmatch(line, -1) {
		page, anchor := found[1], found[2]
		if slices.Contains(formats, path.Base(page)) {
			continue
		}

		if !exists(page) && !exists(path.Join(path.Dir(source), page)) {
			return page + " is not in the repository: name a page of docs/"
		}

		if anchor != "" && !slices.Contains(headings(page), anchor) {
			return page + " has no heading " + anchor
		}
	}

	if number := chapter.FindString(line); number != "" {
		return "name the page of docs/ and its heading instead of " + number
	}

	return ""
}

// isComment reports whether a line of Go, SQL, TypeScript, YAML or a script has a comment.
func isComment(line string) bool {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "//go:embed") {
		return false
	}

	for _, begin := range []string{"//", "--", "#", "*", "/*"} {
		if strings.HasPrefix(line, begin) {
			return true
		}
	}

	return strings.Contains(line, " // ")
}

func TestCitation(t *testing.T) {
	t.Parallel()

	exists := func(page string) bool { return page == "docs/rest.md" || page == "tools/read.md" }
	headings := func(string) []string { return []string{"#rules"} }

	for line, fault := range map[string]string{
		"// as in docs/rest.md#rules, and SKILL.md":  "",
		"// as in read.md":                           "",
		`x := "see other.md, section 3"`:             "",
		"//go:embed other.md":                        "",
		"// as in other.md":                          "other.md is not in the repository: name a page of docs/",
		"x := 1 // as in other.md":                   "other.md is not in the repository: name a page of docs/",
		"-- as in rest.md":                           "rest.md is not in the repository: name a page of docs/",
		" * as in docs/rest.md#sizes":                "docs/rest.md has no heading #sizes",
		"// as in the contract, section 3":           "name the page of docs/ and its heading instead of section 3",
		"// as in docs/rest.md#rules and Decision 7": "name the page of docs/ and its heading instead of Decision 7",
	} {
		require.Equal(t, fault, citation("tools/read.go", line, exists, headings), line)
	}
}

// TestSources_citePagesOfTheRepository holds the comments of all sources to documents that
// a reader of the repository has.
func TestSources_citePagesOfTheRepository(t *testing.T) {
	t.Parallel()

	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)

	exists := func(page string) bool {
		_, err := os.Stat(filepath.Join(root, page))
		return err == nil
	}
	headings := func(page string) []string { return anchors(read(t, page)) }
	checked := 0

	for source := range strings.SplitSeq(string(out), "\x00") {
		switch {
		case strings.Contains(source, "testdata/"), source == "internal/doccheck/citations_test.go", !exists(source):
			continue
		case !slices.Contains([]string{".go", ".sql", ".ts", ".tsx", ".js", ".mjs", ".py", ".sh", ".yaml", ".yml"}, path.Ext(source)):
			continue
		}

		checked++

		for i, line := range strings.Split(read(t, source), "\n") {
			if fault := citation(source, line, exists, headings); fault != "" {
				t.Errorf("%s:%d: %s", source, i+1, fault)
			}
		}
	}

	require.Greater(t, checked, 1000, "sources")
}
