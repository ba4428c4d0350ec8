//go:build linux

package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/workspace"
	"everloop/internal/diskspace"
)

// A copy that has no room is refused before its first file is written.
func TestCarrier_CopyFiles_refusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()

	for name, limits := range map[string]workspace.Limits{
		"bytes":   {Bytes: 1 << 20},
		"inodes":  {Inodes: 8},
		"reserve": {Reserve: diskspace.Reserve{Bytes: 1 << 60}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "workspace")
			from, to := domain.Session{ID: "from"}, domain.Session{ID: "to"}
			source, err := workspace.New(root).Open(t.Context(), from.ID, 0)
			require.NoError(t, err)

			defer source.Close()

			for i := range 10 {
				_, err := source.WriteFile(
					t.Context(),
					string(rune('a'+i)),
					strings.NewReader(strings.Repeat("x", 200<<10)),
					workspace.WriteOptions{},
				)
				require.NoError(t, err)
			}

			c := Carrier{Workspaces: workspace.NewLimited(root, limits)}
			err = c.CopyFiles(t.Context(), from, to, "")

			code := workspace.CodeNoSpace
			if name == "reserve" {
				code = workspace.CodeDiskFull
			}

			require.True(t, domain.HasCode(err, code), "%v", err)
			left, err := os.ReadDir(filepath.Join(root, string(to.ID)))
			require.NoError(t, err)
			require.Empty(t, left)

			require.True(t, domain.HasCode(c.Fits(t.Context(), to, 2<<20, 10), code))
			require.NoError(t, Carrier{Workspaces: workspace.New(root)}.CopyFiles(t.Context(), from, to, ""))
		})
	}
}
