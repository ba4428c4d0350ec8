package flags

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDisk_Check(t *testing.T) {
	t.Parallel()
	require.NoError(t, Disk{}.Check())

	err := Disk{WorkspaceInodes: -1, DiskReserve: DiskReserve{ReserveBytes: -1, ReservePercent: 51}}.Check()
	for _, variable := range []string{"WORKSPACE_INODES", "DISK_RESERVE_BYTES", "DISK_RESERVE_PERCENT"} {
		require.ErrorContains(t, err, variable)
	}
}
