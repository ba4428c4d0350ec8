package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/api/system"
)

// smallDisk mounts a file system that can be filled.
func smallDisk(t *testing.T, options string) string {
	t.Helper()

	dir := t.TempDir()
	if err := unix.Mount("everloop-test", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}

	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })

	return dir
}

func TestBackend_checkSpace(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "size=200m,nr_inodes=20000")
	b := &backend{metrics: prometheus.NewRegistry()}
	b.settings.DataDir = dir
	require.NoError(t, b.checkSpace())
	b.registerSpace()
	families, err := b.metrics.Gather()
	require.NoError(t, err)
	require.Len(t, families, 4)
	require.Len(t, families[0].GetMetric(), 1, "the workspaces' directory is not made yet")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), make([]byte, 120<<20), 0o600))

	var degraded system.Degraded
	require.ErrorAs(t, b.checkSpace(), &degraded)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "more"), make([]byte, 30<<20), 0o600))

	err = b.checkSpace()
	require.ErrorContains(t, err, "is full")
	require.False(t, func() bool { _, short := err.(system.Degraded); return short }())
}
