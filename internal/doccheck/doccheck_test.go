// Package doccheck holds the documentation to the code and to itself: every error
// code that clients may meet is explained, every link leads somewhere, and every
// page can be found from the index. It must know nothing of what the code does.
package doccheck_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// toModel are codes that no client of the service meets: a model reads their
// message as a tool's result, or the mock service answers with them.
var toModel = []string{
	"context_length_exceeded", "invalid_script", "invalid_url", "local_only", "request_too_large", "search_failed",
	"web_refused", "web_too_large", "web_unreachable", "web_unsupported",
}

var (
	codeUse   = regexp.MustCompile(`Newf\(\s*[\w.]+,\s*"([a-z_]+)"|Code:\s+"([a-z_]+)"`)
	codeConst = regexp.MustCompile(`\bCode\w+\s+= "([a-z_]+)"`)
	link      = regexp.MustCompile(`\]\(([^)#\s]+)?(#[^)\s]+)?\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing.T\)`)
	quoted    = regexp.MustCompile("`([^`]+)`")
	fence     = regexp.MustCompile("(?s)```.*?```")
)

func TestErrors_everyCodeIsExplained(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/errors.md")

	var missing []string

	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}

		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}

		source, err := os.ReadFile(path)
		for _, pattern := range []*regexp.Regexp{codeUse, codeConst} {
			for _, found := range pattern.FindAllStringSubmatch(string(source), -1) {
				code := strings.Join(found[1:], "")
				if !strings.Contains(page, "`"+code+"`") && !slices.Contains(toModel, code) && !slices.Contains(missing, code) {
					missing = append(missing, code)
				}
			}
		}

		return err
	}))
	require.Empty(t, missing, "docs/errors.md does not explain these codes")
}

// Codes that decide what becomes of failed work are written once, in the domain:
// a package that spelt one differently would act on another code.
func TestErrors_sharedCodesAreConstants(t *testing.T) {
	t.Parallel()

	var spelt []string

	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "domain" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}

		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}

		source, err := os.ReadFile(path)
		for _, code := range []string{"model_unavailable", "model_retry", "context_overflow", "run_lost"} {
			if strings.Contains(string(source), `"`+code+`"`) {
				spelt = append(spelt, path+": "+code)
			}
		}

		return err
	}))
	require.Empty(t, spelt, "use the constants of package domain")
}

// Each claim of docs/security.md names the test that holds it.
func TestSecurity_claimsNameTests(t *testing.T) {
	t.Parallel()

	tests := map[string]bool{}

	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if d.Name() == "node_modules" {
			return filepath.SkipDir
		}

		if strings.HasSuffix(path, ".test.mjs") {
			tests["e2e/"+strings.TrimSuffix(d.Name(), ".test.mjs")] = true
		}

		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}

		source, err := os.ReadFile(path)
		for _, found := range testFunc.FindAllStringSubmatch(string(source), -1) {
			tests[found[1]] = true
		}

		return err
	}))

	claims := 0

	for row := range strings.Lines(read(t, "docs/security.md")) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || !strings.Contains(row, "`") {
			continue
		}

		claims++

		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			require.True(t, tests[name[1]], "docs/security.md names %s, which is no test", name[1])
		}
	}

	require.Greater(t, claims, 20, "claims with tests")
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()

	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, page), ""), -1) {
			target, anchor := found[1], found[2]
			if strings.Contains(target, "://") {
				continue
			}

			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), target)
				_, err := os.Stat(filepath.Join(root, to))
				require.NoError(t, err, "%s links to %s", page, target)
			}

			if anchor != "" && strings.HasSuffix(to, ".md") {
				require.Contains(t, anchors(read(t, to)), anchor, "%s links to %s%s", page, target, anchor)
			}
		}
	}
}

func TestEveryPageIsInTheIndex(t *testing.T) {
	t.Parallel()

	index := read(t, "docs/README.md")
	for _, page := range pages(t) {
		if name, below := strings.CutPrefix(page, "docs/"); below && name != "README.md" {
			require.Contains(t, index, "]("+name+")")
		}
	}
}

// pages lists all Markdown pages, relative to the repository.
func pages(t *testing.T) []string {
	t.Helper()

	found := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}

	for _, pattern := range []string{"docs/*.md", "docs/operators/*.md", "docs/decisions/*.md"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)

		for _, match := range matches {
			found = append(found, strings.TrimPrefix(match, root+"/"))
		}
	}

	return found
}

// anchors gives the anchors of a page's headings.
func anchors(page string) []string {
	var all []string

	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
				return r
			default:
				return -1
			}
		}, strings.ToLower(found[1]))
		all = append(all, "#"+anchor)
	}

	return all
}

func read(t *testing.T, path string) string {
	t.Helper()

	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)

	return string(text)
}
