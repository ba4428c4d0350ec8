//go:build linux

package skills

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/skillpack"
)

// Packages are kept outside of workspaces, where no quota counts them: they stop at the
// reserve of the disk, also in the middle, and leave nothing behind.
func TestStore_keep_diskFull(t *testing.T) {
	t.Parallel()

	files := filepath.Join(t.TempDir(), "skill")
	require.NoError(t, os.Mkdir(files, 0o700))
	require.NoError(
		t,
		os.WriteFile(filepath.Join(files, "SKILL.md"), []byte("---\nname: skill\ndescription: A skill.\n---\n\nText.\n"), 0o600),
	)
	require.NoError(t, os.WriteFile(filepath.Join(files, "more.md"), []byte("more"), 0o600))

	found, _, err := hostFiles(files)
	require.NoError(t, err)
	p, err := skillpack.Inspect(t.Context(), found)
	require.NoError(t, err)

	left := 1
	dir := t.TempDir()
	s := store{dir: dir, read: newMemo[string, skillpack.Pack](1, 0), room: func() error {
		if left--; left < 0 {
			return errors.New("12 bytes are free")
		}

		return nil
	}}

	err = s.keep(t.Context(), p)
	require.True(t, domain.HasCode(err, domain.CodeDiskFull), "%v", err)

	kept, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, kept)

	left = len(p.Files)

	require.NoError(t, s.keep(t.Context(), p))
	require.NoError(t, s.keep(t.Context(), p), "what is there needs no room")

	loaded, err := s.load(t.Context(), p.Digest)
	require.NoError(t, err)
	require.Equal(t, p.Digest, loaded.Digest)
}
