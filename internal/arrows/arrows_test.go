// Package arrows compares the imports between packages with the tree of
// docs/architecture.md: imports point downwards.
package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// roots may import anything: what wires the roles, tests the whole or builds.
var roots = []string{"build", "internal/app", "internal/systemtest", "internal/testkit"}

var (
	// row matches a row of the tree: a package, and the packages of this module that it may import.
	row = regexp.MustCompile("^\\| `([^`]+)` \\| .+ \\| (nothing of ours|`[^`]+`(?:, `[^`]+`)*) \\|$")

	quoted = regexp.MustCompile("`([^`]+)`")
)

// rules are the packages that each row of the tree, with the packages below it, may import outside tests.
type rules map[string][]string

// readRules reads the tree of docs/architecture.md.
func readRules(t *testing.T) rules {
	t.Helper()

	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)

	_, tree, found := strings.Cut(string(page), "\n## The tree\n")
	require.True(t, found)

	allowed := rules{}

	for line := range strings.Lines(tree) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}

		cells := row.FindStringSubmatch(strings.TrimSpace(line))
		require.NotNil(t, cells, "the row must end with a list of packages or with \"nothing of ours\": %s", line)
		require.NotContains(t, allowed, cells[1], "the package has two rows")

		allowed[cells[1]] = nil
		for _, imported := range quoted.FindAllStringSubmatch(cells[2], -1) {
			allowed[cells[1]] = append(allowed[cells[1]], imported[1])
		}
	}

	return allowed
}

func TestPackagesImportOnlyDownwards(t *testing.T) {
	t.Parallel()

	out, err := exec.Command("go", "list", "-json=ImportPath,GoFiles,Imports", "everloop/...").Output()
	require.NoError(t, err)

	allowed := readRules(t)
	decoder := json.NewDecoder(bytes.NewReader(out))
	seen := map[string]bool{}

	for {
		var pkg struct {
			ImportPath string
			GoFiles    []string
			Imports    []string
		}

		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}

		require.NoError(t, err)

		name := strings.TrimPrefix(pkg.ImportPath, "everloop/")

		rule, found := allowed.ruleFor(name)
		if !found {
			isRoot := slices.ContainsFunc(roots, func(root string) bool { return name == root || strings.HasPrefix(name, root+"/") })
			if !isRoot && len(pkg.GoFiles) > 0 { // one with tests alone imports nothing
				t.Errorf("%s has no row in docs/architecture.md", name)
			}

			continue
		}

		seen[rule] = true

		for _, imported := range pkg.Imports {
			target, ours := strings.CutPrefix(imported, "everloop/")
			if !ours || target == rule || strings.HasPrefix(target, rule+"/") && !allowed.hasRule(target) {
				continue
			}

			if !allowed.permits(rule, target) {
				t.Errorf("%s imports %s, which its row in docs/architecture.md does not list", name, target)
			}
		}
	}

	for rule := range allowed {
		if !seen[rule] {
			t.Errorf("docs/architecture.md has a row for %s, which is not a package", rule)
		}
	}
}

// ruleFor returns the closest row for a package.
func (r rules) ruleFor(name string) (string, bool) {
	for ; name != ""; name = parent(name) {
		if r.hasRule(name) {
			return name, true
		}
	}

	return "", false
}

func (r rules) hasRule(name string) bool {
	_, found := r[name]
	return found
}

func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ""
	}

	return name[:i]
}

// permits reports whether the packages of a row may import target, by its own row or that of its closest parent.
func (r rules) permits(rule, target string) bool {
	for ; target != ""; target = parent(target) {
		if slices.Contains(r[rule], target) {
			return true
		}

		if r.hasRule(target) {
			return false
		}
	}

	return false
}
