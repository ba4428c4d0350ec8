package search

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools/toolstest"
)

func TestFileExists(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.File("report/today.md", "x")
	b.File("report/deep/er.txt", "x")
	b.File("odd[1].txt", "x")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(b.Session.Root, "link")))

	for pattern, want := range map[string]string{
		"report/today.md": "", "report/*.md": "", "**/*.txt": "", "report/**": "", "odd[1].txt": "",
		"report": "no file matches", "*.md": "no file matches", "none/*": "no file matches", "link": "no file matches",
		"../*": ".. leaves the workspace.",
	} {
		why, err := FileExists(t.Context(), toolstest.Directory{}, b.Session, pattern)
		require.NoError(t, err, pattern)
		require.Equal(t, want == "", why == "", "%s: %s", pattern, why)
	}
}
