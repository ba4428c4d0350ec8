package doccheck_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recipeRow is a row of a recipe: a file in backquotes, what is done there, and a text
// in backquotes that the existing example has in that file.
var recipeRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|[^|]+\\| `([^`]+)` \\|$")

// TestContributing_recipesNameExistingFiles holds each recipe of CONTRIBUTING.md to its
// example: the files that it names exist, and have what the example has there.
func TestContributing_recipesNameExistingFiles(t *testing.T) {
	t.Parallel()
	page := read(t, "CONTRIBUTING.md")
	recipes := strings.Split(page, "\n### ")[1:]
	require.Len(t, recipes, 4, "a tool, an operation, an event, an engine")

	for _, recipe := range recipes {
		title, _, _ := strings.Cut(recipe, "\n")
		rows := recipeRow.FindAllStringSubmatch(recipe, -1)
		require.NotEmpty(t, rows, title)

		for _, row := range rows {
			content, err := os.ReadFile(filepath.Join(root, row[1]))
			require.NoError(t, err, "%s: the recipe names a file that is not there: update CONTRIBUTING.md", title)
			require.Contains(t, string(content), row[2], "%s: the example is not in %s: update CONTRIBUTING.md", title, row[1])
		}
	}
}
