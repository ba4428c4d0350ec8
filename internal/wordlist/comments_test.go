package wordlist

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// literary are words that sources of the field hardly use. In river, pocketbase and Temporal they
// are 0.5 to 1.3 of 1,000 words of the comments.
var literary = regexp.MustCompile(`(?i)\b(gives|holds|keeps|gone|beside|goes on|go on|carries|stands|of its own|of their own|of theirs|` +
	`whatever|those that|those of|that of|the one that|meanwhile|lately|again and again|for good|any more|in the place of|begun|hears|` +
	`knows|begins|lets|comes|wherever)\b`)

const (
	// maxLiterary is how many of 1,000 words of comments may be literary; the goal is 3.
	maxLiterary = 6.5
	// minReturns is the least share of functions whose comment starts with "returns", in percent.
	minReturns = 25.0
	// maxVague is the largest share of functions whose comment starts with "gives", "makes" or
	// "says", in percent; the goal is 2.
	maxVague = 5.0
)

// TestComments_measures compares the comments of Go sources with what the sources of the field have.
func TestComments_measures(t *testing.T) {
	t.Parallel()

	var words, found, functions, returns, vague float64

	for _, path := range sources(t) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			continue
		}

		content, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}

		require.NoError(t, err)

		file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ParseComments)
		require.NoError(t, err)

		if ast.IsGenerated(file) {
			continue
		}

		for _, group := range file.Comments {
			text := group.Text()
			words += float64(len(strings.Fields(text)))
			found += float64(len(literary.FindAllString(text, -1)))
		}

		for _, verb := range verbs(file) {
			functions++

			switch verb {
			case "returns":
				returns++
			case "gives", "makes", "says":
				vague++
			}
		}
	}

	require.LessOrEqual(t, found/words*1000, maxLiterary, "literary words of 1,000 words of comments")
	require.GreaterOrEqual(t, returns/functions*100, minReturns, "percent of functions whose comment starts with returns")
	require.LessOrEqual(t, vague/functions*100, maxVague, "percent of functions whose comment starts with gives, makes or says")
}

// verbs returns the words behind the names of functions in their comments.
func verbs(file *ast.File) (list []string) {
	for _, declared := range file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}

		if fields := strings.Fields(function.Doc.Text()); len(fields) > 1 && fields[0] == function.Name.Name {
			list = append(list, strings.Trim(fields[1], ",.:;"))
		}
	}

	return list
}
