//go:build linux

package toolbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/workspace"
)

// A tool that makes a file must not replace one that a user makes in the meantime.
func TestWriteOfAnAbsentFileReplacesNone(t *testing.T) {
	t.Parallel()
	files, err := Files{Store: workspace.New(t.TempDir())}.Open(t.Context(), tools.SessionView{ID: "s"})
	require.NoError(t, err)

	defer files.Close()

	made, err := files.Write(t.Context(), "dir/f", strings.NewReader("user"), tools.Absent)
	require.NoError(t, err)
	_, err = files.Write(t.Context(), "dir/f", strings.NewReader("tool"), tools.Absent)
	require.True(t, domain.HasCode(err, workspace.CodeExists), err)
	info, err := files.Stat("dir/f")
	require.NoError(t, err)
	require.Equal(t, made.ETag, info.ETag)
	_, err = files.Write(t.Context(), "dir/f", strings.NewReader("tool"), made.ETag)
	require.NoError(t, err)
	_, err = files.Write(t.Context(), "dir/f", strings.NewReader("tool"), made.ETag)
	require.True(t, domain.HasCode(err, workspace.CodeStale), err)
}
