package memlimit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/require"
)

func TestSoftLimit(t *testing.T) {
	none := func() (uint64, error) { return 0, fmt.Errorf("cgroup: %w", memlimit.ErrNoLimit) }
	for name, test := range map[string]struct {
		group, machine memlimit.Provider
		want           uint64
	}{
		"group":               {memlimit.Limit(1 << 30), memlimit.Limit(8 << 30), 751619276},
		"machine":             {none, memlimit.Limit(2 << 30), 1503238553},
		"group above machine": {memlimit.Limit(64 << 30), memlimit.Limit(2 << 30), 1503238553},
		"large machine":       {none, memlimit.Limit(64 << 30), Most},
		"small group":         {memlimit.Limit(128 << 20), memlimit.Limit(8 << 30), Least},
		"neither known":       {none, none, Most},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := softLimit(test.group, test.machine)
			require.NoError(t, err)
			require.InDelta(t, test.want, got, 1)
		})
	}
}

func TestSoftLimit_unreadableGroup(t *testing.T) {
	broken := func() (uint64, error) { return 0, errors.New("permission denied") }
	got, err := softLimit(broken, memlimit.Limit(1<<30))
	require.ErrorContains(t, err, "permission denied")
	require.InDelta(t, 751619276, got, 1)
}

// childEnv makes the test binary print its limit and GOGC instead of testing: Go
// reads both variables once, when a process starts.
const childEnv = "MEMLIMIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}

	_, err := Set()
	fmt.Println(debug.SetMemoryLimit(-1), debug.SetGCPercent(100), err)
}

func TestSet_operatorWins(t *testing.T) {
	for name, test := range map[string]struct {
		env         []string
		limit, gogc string
	}{
		"both set": {[]string{"GOMEMLIMIT=300MiB", "GOGC=77"}, strconv.Itoa(300 << 20), "77"},
		"limit":    {[]string{"GOMEMLIMIT=300MiB"}, strconv.Itoa(300 << 20), "200"},
		"GOGC":     {[]string{"GOGC=77"}, "", "77"},
		"neither":  {nil, "", "200"},
	} {
		t.Run(name, func(t *testing.T) {
			child := exec.Command(os.Args[0])

			child.Env = append(test.env, childEnv+"=1", "PATH="+os.Getenv("PATH"))
			out, err := child.CombinedOutput()
			require.NoError(t, err, string(out))
			fields := strings.Fields(string(out))
			require.Equal(t, []string{test.gogc, "<nil>"}, fields[1:3])

			if test.limit != "" {
				require.Equal(t, test.limit, fields[0])
				return
			}

			limit, err := strconv.ParseInt(fields[0], 10, 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, limit, int64(Least))
			require.LessOrEqual(t, limit, int64(Most))
		})
	}
}
