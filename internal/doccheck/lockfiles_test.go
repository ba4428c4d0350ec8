package doccheck_test

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every package of a lock file has a digest, or is a part of one that has: what is
// installed is what was reviewed, whichever registry delivers it.
func TestLockFiles_haveDigests(t *testing.T) {
	t.Parallel()

	type locked struct {
		Integrity string
		Link      bool
		InBundle  bool
	}

	found := 0

	require.NoError(t, filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git") {
			return filepath.SkipDir
		}

		if entry.Name() != "package-lock.json" {
			return nil
		}

		relative, err := filepath.Rel(filepath.Join("..", ".."), path)
		require.NoError(t, err)

		var lock struct{ Packages map[string]locked }
		require.NoError(t, json.Unmarshal([]byte(read(t, relative)), &lock), relative)
		require.NotEmpty(t, lock.Packages, relative)

		found++

		for name, one := range lock.Packages {
			if name != "" && !one.Link && !one.InBundle {
				require.True(t, strings.HasPrefix(one.Integrity, "sha512-"), "%s: %s has no sha512", relative, name)
			}

			if one.InBundle {
				parent := name[:strings.LastIndex(name, "/node_modules/")]
				require.NotEmpty(t, lock.Packages[parent].Integrity, "%s: %s is bundled in a package without a digest", relative, name)
			}
		}

		return nil
	}))

	require.Greater(t, found, 4)
}

// Scripts that install on the machine of a user run none of the packages' own scripts.
func TestInstallers_runNoPackageScripts(t *testing.T) {
	t.Parallel()

	install := regexp.MustCompile(`npm (ci|install)[^\n]*`)

	for _, script := range []string{"build/setup.sh", "build/browser/install.sh"} {
		lines := install.FindAllString(read(t, script), -1)
		require.NotEmpty(t, lines, script)

		for _, line := range lines {
			require.Contains(t, line, "--ignore-scripts", script)
		}
	}
}
