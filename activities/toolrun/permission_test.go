package toolrun

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFollowLinks(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "prod/deep"), 0o700))

	for name, target := range map[string]string{
		"link": "prod", "prod/up": "../prod/deep", "absolute": "/workspace/prod", "outside": "/etc", "loop": "loop", "two": "link/deep",
		"root": "/workspace",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}

	root, err := os.OpenRoot(dir)
	require.NoError(t, err)

	defer root.Close()

	for path, want := range map[string]string{
		".": ".", "a": "a", "prod/x": "prod/x", "link": "prod", "link/x": "prod/x", "link/up/x": "prod/deep/x", "absolute/x": "prod/x",
		"two": "prod/deep", "new/link": "new/link", "loop": "loop", "root/link/x": "prod/x",
	} {
		require.Equal(t, want, followLinks(root, path), path)
	}
}
