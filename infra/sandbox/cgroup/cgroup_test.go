//go:build linux

package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTotals_orShares(t *testing.T) {
	t.Parallel()

	group := t.TempDir()
	for name, content := range map[string]string{"memory.max": "4000000\n", "pids.max": "max\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(group, name), []byte(content), 0o644))
	}

	own := Totals{}.orShares(map[string]string{"": group})
	require.EqualValues(t, 3_000_000, own.Memory, "three quarters of what the service's own group has")
	require.Positive(t, own.Processes)
	require.Less(t, int64(own.Processes), readLimit("/proc/sys/kernel/pid_max"))
	require.Equal(t, Totals{7, 8}, Totals{7, 8}.orShares(nil))
}

// A limit that the control groups refuse leaves commands measured, and the cause is
// shown to operators.
func TestFind_refusedLimit(t *testing.T) {
	usable := Find(Config{CPUWeight: 100})
	defer usable.Close()

	if usable.PIDs == "" {
		t.Skip("no control group that limits processes may be made here")
	}

	c := Find(Config{Total: Totals{Processes: math.MaxInt}, CPUWeight: 100})
	require.Equal(t, Holds{}, c.Holds())
	require.Contains(t, c.Describe(), "the control groups here refuse limits: ")
	require.Contains(t, c.Describe(), "pids.max")
}
