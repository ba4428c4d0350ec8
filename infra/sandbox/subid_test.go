//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// No local user may be given the users of sessions (security review, L1).
func TestCheckSubordinateFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "subuid")
	require.NoError(t, os.WriteFile(path, []byte("# comment\nann:100000:65536\nbad\nbob:165536:65536\nnone:5:0\n"), 0o644))
	require.NoError(t, checkSubordinateFile(path, DefaultUserBase-maxPrivate, LastUser))
	require.NoError(t, checkSubordinateFile(path, 231072, LastUser))
	require.ErrorContains(t, checkSubordinateFile(path, 100001, LastUser), "to ann")
	require.ErrorContains(t, checkSubordinateFile(path, 231071, LastUser), "to bob")
	require.ErrorContains(t, checkSubordinateFile(path, 1, 100000), "change that file")
	require.NoError(t, checkSubordinateFile(path+"-missing", 100001, LastUser))
}

func TestNew_userBase(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("the service is not root, so that there is one user")
	}

	s := open(t, Config{UserBase: 1_950_000_000})
	require.Equal(t, 1_950_000_000, s.ProbeUID())
	p, err := s.Start(t.Context(), private("sleep 1000"))
	require.NoError(t, err)

	defer p.Kill()

	require.Equal(t, 1_950_000_000-1, userOf(t, p))
	require.Equal(t, DefaultUserBase, open(t, Config{}).ProbeUID())
}
