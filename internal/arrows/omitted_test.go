package arrows_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// omitted matches the packages that build/omitted replaces by declarations without effect.
var omitted = regexp.MustCompile(`^(cloud\.google\.com/go/storage|go\.temporal\.io/auto-scaled-workers|modernc\.org/sqlite)(/|$)`)

// TestOmittedModules_areForTemporalOnly fails for a package that would compile against the
// declarations of build/omitted and fail when it runs, such as one with its state in SQLite.
func TestOmittedModules_areForTemporalOnly(t *testing.T) {
	t.Parallel()

	command := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Imports", "./...")
	command.Dir = "../.."

	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())

	used := false

	for list := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}

		if err := list.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}

		for _, path := range p.Imports {
			if !omitted.MatchString(path) || omitted.MatchString(p.ImportPath) {
				continue
			}

			used = true

			require.True(t, strings.HasPrefix(p.ImportPath, "go.temporal.io/server/"),
				"%s imports %s, of which build/omitted has only declarations", p.ImportPath, path)
		}
	}

	require.NoError(t, command.Wait())
	require.True(t, used, "nothing imports the omitted modules: drop them")
}
