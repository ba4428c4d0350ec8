package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other users of the machine may not look into the data directory.
func TestMakePrivate(t *testing.T) {
	t.Parallel()

	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		require.NoError(t, err)

		return info.Mode().Perm()
	}
	made := filepath.Join(t.TempDir(), "a", "data")
	require.NoError(t, makePrivate(made))
	require.EqualValues(t, 0o711, mode(made))
	require.NoError(t, os.Chmod(made, 0o755))
	require.NoError(t, makePrivate(made))
	require.EqualValues(t, 0o711, mode(made), "an existing one is narrowed")
	require.NoError(t, os.Chmod(made, 0o700))
	require.NoError(t, makePrivate(made))
	require.EqualValues(t, 0o700, mode(made), "and not widened")
}
