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

// What tools write, saved outputs and the logs of tasks take from one quota.
func TestFiles_toolsKeepToTheQuota(t *testing.T) {
	t.Parallel()
	store := workspace.NewLimited(t.TempDir(), workspace.Limits{Bytes: 1 << 20, Inodes: 20})
	files, err := Files{Store: store}.Open(t.Context(), tools.SessionView{ID: "s"})
	require.NoError(t, err)

	defer files.Close()

	_, err = files.Write(t.Context(), "large", strings.NewReader(strings.Repeat("x", 2<<20)), "")
	require.True(t, domain.HasCode(err, workspace.CodeNoSpace), "%v", err)
	_, err = files.Write(t.Context(), "small", strings.NewReader("x"), "")
	require.NoError(t, err)

	saved, err := files.Append(t.Context(), tools.OutputDir+"/call.txt")
	require.NoError(t, err)

	defer saved.Close()

	written, chunk := 0, make([]byte, 32<<10)

	for err == nil {
		var n int

		n, err = saved.Write(chunk)
		written += n
	}

	require.True(t, domain.HasCode(err, workspace.CodeNoSpace), "%v", err)
	require.Greater(t, written, 900<<10)
	require.Less(t, written, 1<<20)
	_, err = files.Write(t.Context(), "other", strings.NewReader(strings.Repeat("x", 64<<10)), "")
	require.True(t, domain.HasCode(err, workspace.CodeNoSpace), "saved outputs count: %v", err)
}
