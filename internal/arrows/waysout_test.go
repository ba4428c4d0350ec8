package arrows

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waysOut are the ways out of the service and the files that open connections for them. A way
// that sessions use is driven by the matrix of internal/systemtest under every policy
// (docs/network.md), or has tests of its own; the others go to what the operator configures.
type waysOut struct {
	Ways map[string]struct {
		Matrix   bool
		Tests    []string
		Operator string
		None     string // why nothing is opened for it
	}
	Files map[string][]string // the ways of each file
}

func readWaysOut(t *testing.T) waysOut {
	t.Helper()

	text, err := os.ReadFile("testdata/waysout.json")
	require.NoError(t, err)

	var ways waysOut

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&ways))

	return ways
}

var connects = regexp.MustCompile(
	`net\.Dialer\{|net\.Dial(Timeout)?\(|tls\.Dial\(|http\.(Client|Transport)\{|http\.Default(Client|Transport)\b|` +
		`http\.(Get|Head|Post|PostForm)\(|netguard\.New\(|guardWithoutPaths\(|httputil\.ReverseProxy\{`,
)

func TestWaysOut_areListed(t *testing.T) {
	t.Parallel()

	found := map[string]bool{}

	for _, top := range []string{
		"activities", "api", "auth", "cmd", "companions", "domain", "infra", "internal", "realtime", "service",
		"terminal", "worker", "workflows", "chatrequest",
	} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}

			name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Clean("../..")+string(filepath.Separator)))
			if strings.HasPrefix(name, "internal/testkit/") || strings.HasSuffix(filepath.Dir(name), "test") {
				return nil
			}

			text, err := os.ReadFile(path)
			if connects.Match(text) {
				found[name] = true
			}

			return err
		})
		require.NoError(t, err)
	}

	listed := readWaysOut(t).Files

	for name := range found {
		assert.NotEmpty(t, listed[name], "%s opens connections and is not listed: which policy holds it?", name)
	}

	for name := range listed {
		assert.True(t, found[name], "%s opens no connections any more", name)
	}
}

func TestWaysOut_areTested(t *testing.T) {
	t.Parallel()

	listed, opened := readWaysOut(t), map[string]bool{}

	for file, ways := range listed.Files {
		for _, way := range ways {
			opened[way] = true
			assert.Contains(t, listed.Ways, way, "a way of %s", file)
		}
	}

	tests := testNames(t)

	for name, way := range listed.Ways {
		kinds := 0

		for _, given := range []bool{way.Matrix, len(way.Tests) > 0, way.Operator != "", way.None != ""} {
			if given {
				kinds++
			}
		}

		assert.Equal(t, 1, kinds, "%s: what holds it?", name)
		assert.Equal(t, way.None == "", opened[name], "%s: the files that open its connections", name)

		for _, test := range way.Tests {
			assert.True(t, tests[test], "%s: there is no %s", name, test)
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testNames returns the names of all tests in Go.
func testNames(t *testing.T) map[string]bool {
	t.Helper()

	names := map[string]bool{}

	for _, top := range []string{"activities", "api", "companions", "domain", "infra", "internal", "service"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}

			text, err := os.ReadFile(path)
			for _, match := range testName.FindAllSubmatch(text, -1) {
				names[string(match[1])] = true
			}

			return err
		})
		require.NoError(t, err)
	}

	return names
}
