package doccheck_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// walkPart is a package of a step of a walk, with its functions.
var walkPart = regexp.MustCompile("`([a-z/]+)`: ((?:`\\w+`(?:, )?)+)")

// TestArchitecture_walksNameExistingFunctions holds the walks of docs/architecture.md
// to the code: each function that a step names is in the package that it names.
func TestArchitecture_walksNameExistingFunctions(t *testing.T) {
	t.Parallel()

	_, section, found := strings.Cut(read(t, "docs/architecture.md"), "\n## A chat, end to end\n")
	require.True(t, found)

	section, _, _ = strings.Cut(section, "\n## ")
	named := 0

	for _, part := range walkPart.FindAllStringSubmatch(section, -1) {
		code := packageSource(t, part[1])
		for _, function := range quoted.FindAllStringSubmatch(part[2], -1) {
			named++

			require.Regexp(t, `(?m)^func (\([^)]*\) )?`+function[1]+`[\[(]`, code,
				"docs/architecture.md names %s in %s", function[1], part[1])
		}
	}

	require.Greater(t, named, 50)
}

// packageSource returns the code of a package, without its tests.
func packageSource(t *testing.T, folder string) string {
	t.Helper()

	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "docs/architecture.md names the package %s, which has no code", folder)

	var code strings.Builder

	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}

		content, err := os.ReadFile(file)
		require.NoError(t, err)
		code.Write(content)
	}

	return code.String()
}
