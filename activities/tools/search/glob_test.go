package search

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools/toolstest"
)

func TestGlob(t *testing.T) {
	t.Parallel()

	b := newBench(t, nil)
	for i, name := range []string{
		"a.go", "cmd/b.go", "cmd/deep/c_test.go", "web/d.ts", "web/e.tsx", ".github/f.yml", ".git/g.go", ".everloop/output/h.txt",
		"sub/.git/i.go",
	} {
		b.File(name, "x")

		at := time.Unix(1_700_000_000+int64(i), 0)
		require.NoError(t, os.Chtimes(filepath.Join(b.Session.Root, name), at, at))
	}

	require.NoError(t, os.Symlink("/etc", filepath.Join(b.Session.Root, "etc")))

	for name, tc := range map[string]struct {
		arguments toolstest.Args
		want      string
		isError   bool
	}{
		"newest first":       {toolstest.Args{"pattern": "**/*.go"}, "cmd/deep/c_test.go\ncmd/b.go\na.go\n", false},
		"one directory":      {toolstest.Args{"pattern": "*.go"}, "a.go\n", false},
		"alternatives":       {toolstest.Args{"pattern": "web/*.{ts,tsx}"}, "web/e.tsx\nweb/d.ts\n", false},
		"below a path":       {toolstest.Args{"pattern": "**/*.go", "path": "cmd"}, "cmd/deep/c_test.go\ncmd/b.go\n", false},
		"hidden directories": {toolstest.Args{"pattern": "**/*.yml"}, ".github/f.yml\n", false},
		"named outright":     {toolstest.Args{"pattern": ".everloop/output/*"}, ".everloop/output/h.txt\n", false},
		"a file by its name": {toolstest.Args{"pattern": "cmd/b.go"}, "cmd/b.go\n", false},
		"nothing":            {toolstest.Args{"pattern": "*.rs"}, "No file matches \"*.rs\".", false},
		"missing directory":  {toolstest.Args{"pattern": "*", "path": "none"}, "No file matches \"*\".", false},
		"bad pattern":        {toolstest.Args{"pattern": "a[b"}, "\"a[b\" is not a valid pattern.", true},
		"outside":            {toolstest.Args{"pattern": "../*"}, ".. leaves the workspace.", true},
		"outside, hidden":    {toolstest.Args{"pattern": "*/../../*"}, "\"*/../../*\" leaves the workspace.", true},
		"a file as the path": {toolstest.Args{"pattern": "*", "path": "a.go"}, "a.go is not a directory.", true},
		"links not followed": {toolstest.Args{"pattern": "etc/*"}, "the path leaves the workspace.", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := b.Do("Glob", tc.arguments)
			require.Equal(t, tc.want, result.Output)
			require.Equal(t, tc.isError, result.IsError)
		})
	}

	t.Run("bounded", func(t *testing.T) {
		t.Parallel()

		b := newBench(t, nil)
		for i := range 1100 {
			b.File(fmt.Sprintf("many/%04d.txt", i), "")
		}

		result := b.Do("Glob", toolstest.Args{"pattern": "many/*.txt"})
		require.Equal(t, maxGlobPaths, strings.Count(result.Output, ".txt\n"))
		require.Contains(t, result.Output, "The newest 1000 of 1100 files")
	})
}
