package doccheck_test

import (
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	envTag      = regexp.MustCompile(`\benv:"([A-Z0-9_,]+)"`)
	composeUse  = regexp.MustCompile(`\$\{([A-Z][A-Z0-9_]+)`)
	exampleLine = regexp.MustCompile(`(?m)^#?([A-Z][A-Z0-9_]+)=`)
	variable    = regexp.MustCompile("`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`")
)

// ofLibraries are variables that no flag reads: libraries of Temporal and OpenTelemetry
// do, and programs that look at NO_COLOR.
var ofLibraries = regexp.MustCompile(`^(OTEL_|TEMPORAL_(TLS|CONFIG_FILE|PROFILE)|NO_COLOR)`)

// ofOthers are variables that flags read and that other programs define.
var ofOthers = regexp.MustCompile(`^(OTEL_|DOCKER_HOST$)`)

// maxVariables bounds the variables of the product: an operator reads them all.
const maxVariables = 95

// TestConfiguration_namesEveryVariable compares the page with the variables of all
// commands, in both directions.
func TestConfiguration_namesEveryVariable(t *testing.T) {
	t.Parallel()

	known := map[string]bool{}

	for _, source := range goSources(t, "cmd", "companions", "infra", "internal", "terminal") {
		for _, tag := range envTag.FindAllStringSubmatch(read(t, source), -1) {
			for name := range strings.SplitSeq(tag[1], ",") {
				known[name] = true
			}
		}
	}

	own := maps.Clone(known)
	maps.DeleteFunc(own, func(name string, _ bool) bool { return ofOthers.MatchString(name) })
	require.Greater(t, len(own), 80)
	require.LessOrEqual(t, len(own), maxVariables, "what no operator tunes is a constant")

	page := read(t, "docs/configuration.md")
	for name := range known {
		require.Contains(t, page, "`"+name+"`", "docs/configuration.md does not name a variable that a command reads")
	}

	for _, named := range variable.FindAllStringSubmatch(page, -1) {
		require.True(t, known[named[1]] || ofLibraries.MatchString(named[1]),
			"docs/configuration.md names %s, which no command reads", named[1])
	}
}

// TestCompose_readsWhatTheExampleLists compares .env.example with the Compose files: a
// variable that they do not read has no effect, and one that is not listed is not found.
func TestCompose_readsWhatTheExampleLists(t *testing.T) {
	t.Parallel()

	used := map[string]bool{}

	for _, file := range []string{"docker-compose.yml", "build/compose/external.yml", "build/compose/https.yml"} {
		for _, found := range composeUse.FindAllStringSubmatch(read(t, file), -1) {
			used[found[1]] = true
		}
	}

	listed := map[string]bool{}
	for _, found := range exampleLine.FindAllStringSubmatch(read(t, ".env.example"), -1) {
		listed[found[1]] = true
	}

	require.Greater(t, len(listed), 50)
	require.Equal(t, slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(listed)),
		"compare the variables of the Compose files with .env.example")
}

// goSources lists the Go files below some folders, without tests, relative to the repository.
func goSources(t *testing.T, folders ...string) []string {
	t.Helper()

	var found []string

	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				found = append(found, strings.TrimPrefix(path, root+"/"))
			}

			return err
		}))
	}

	return found
}
