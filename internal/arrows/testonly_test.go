package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	sharedfs     = "everloop/internal/sharedfs"
	sharedfstest = sharedfs + "/sharedfstest"
)

// A simulated file system would take the service's conditions on files away.
func TestOnlyTestsSimulateFileSystems(t *testing.T) {
	t.Parallel()

	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles", "everloop/...").Output()
	require.NoError(t, err)

	decoder := json.NewDecoder(bytes.NewReader(out))
	helperSimulates := false

	for {
		var pkg struct {
			ImportPath, Dir string
			GoFiles         []string
		}

		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}

		require.NoError(t, err)

		for _, name := range pkg.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)

			if pkg.ImportPath == sharedfstest {
				helperSimulates = helperSimulates || simulates(file)
				continue
			}

			if simulates(file) || importName(file, sharedfstest) != "" {
				t.Errorf("%s of %s simulates a file system outside tests", name, pkg.ImportPath)
			}
		}
	}

	require.True(t, helperSimulates, "this test no longer finds the calls")
}

// simulates reports whether a file uses sharedfs.Simulate.
func simulates(file *ast.File) (found bool) {
	name := importName(file, sharedfs)
	ast.Inspect(file, func(n ast.Node) bool {
		s, is := n.(*ast.SelectorExpr)
		if !is || s.Sel.Name != "Simulate" {
			return true
		}

		x, is := s.X.(*ast.Ident)
		found = found || is && x.Name == name

		return true
	})

	return found || name == "."
}

// importName returns the name by which a file imports a package; empty if it does not.
func importName(file *ast.File, target string) string {
	for _, spec := range file.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err != nil || value != target {
			continue
		}

		if spec.Name != nil {
			return spec.Name.Name
		}

		return path.Base(target)
	}

	return ""
}
