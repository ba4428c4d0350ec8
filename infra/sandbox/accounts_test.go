//go:build linux

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/cgroup"
)

// hold returns a program that takes so many MiB of memory, says so, and stays.
func hold(mib int) string {
	return fmt.Sprintf(`perl -e '$n = %d << 20; $x = "x"; $x x= $n; $| = 1; print "HELD\n"; sleep 1000'`, mib)
}

// holders runs a test where control groups hold the limits, if there are any here,
// and where they are measured.
func holders(t *testing.T, config Config, test func(t *testing.T, s *Sandbox)) {
	for name, none := range map[string]bool{"control groups": false, "measured": true} {
		t.Run(name, func(t *testing.T) {
			config := config
			config.noGroups = none
			s := open(t, config)
			require.True(t, !none || s.Measured())
			test(t, s)
		})
	}
}

// The memory of a command is that of all its processes together, also where no
// control group may be made (security review, M2).
func TestAccounts_memoryOfAllProcesses(t *testing.T) {
	t.Parallel()
	holders(t, Config{}, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		spec := x.spec("for i in 1 2 3 4 5; do (" + hold(100) + " || kill -9 $$) & done; wait")
		spec.Limits.Wall = time.Minute
		spec.Limits.Memory = 256 << 20
		out, r := sh(t, s, spec)
		require.Equal(t, OutOfMemory, r.Cause, "%v %s", r, out)
	})
}

// Memory that several processes share counts once.
func TestAccounts_sharedMemoryCountsOnce(t *testing.T) {
	t.Parallel()
	s := open(t, Config{noGroups: true})
	x := newSession(t, s)
	spec := x.spec(`perl -e '$x = "x" x (100 << 20); for (1..4) { if (!fork) { sleep 2; exit } } wait for 1..4; print "shared\n"'`)
	spec.Limits.Memory = 300 << 20
	out, r := sh(t, s, spec)
	require.Equal(t, "shared", out, "%v", r)
}

// A process that ends while a command is measured takes its memory with it: the pages
// that it shared with the others are not counted again for each of them.
func TestAccounts_processThatEnds(t *testing.T) {
	t.Parallel()

	ended := exec.Command("true")
	require.NoError(t, ended.Start())
	pid := ended.Process.Pid

	require.Eventually(t, func() bool { return statusFields(pid, "status", "VmSize:")[0] == 0 }, time.Minute, time.Millisecond)
	require.Zero(t, account{pids: []int{pid}, memory: 1 << 40}.proportional())
	require.NoError(t, ended.Wait())

	self := account{pids: []int{os.Getpid(), pid}, memory: 1 << 40}.proportional()
	require.NotZero(t, self)
	require.Less(t, self, int64(1<<40))
}

// Files in memory are in no process's count.
func TestAccounts_noFilesInMemory(t *testing.T) {
	t.Parallel()
	s := open(t, Config{noGroups: true})
	spec := newSession(t, s).spec(fmt.Sprintf(`perl -e '$n = "x"; print syscall(%d, $n, 0), " ", $!+0'`, unix.SYS_MEMFD_CREATE))
	out, r := sh(t, s, spec)
	require.True(t, r.Success())
	require.Equal(t, fmt.Sprint("-1 ", int(unix.ENOSYS)), out)
}

// A loop of forks is ended where nothing but measuring counts processes.
func TestAccounts_processes(t *testing.T) {
	t.Parallel()

	a := accounts{held: cgroup.Holds{Memory: true}, total: cgroup.Totals{Processes: 1 << 20}}
	s := open(t, Config{noGroups: true})
	x := newSession(t, s)
	spec := x.spec("for i in $(seq 30); do sleep 1000 & done; wait")
	p, err := s.Start(t.Context(), spec)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(descendants(p.PID())) > 30 }, time.Minute, 5*time.Millisecond)
	a.check([]*Process{p})
	limited := &Process{sandbox: s, in: &instance{child: p.in.child, cgroup: p.in.cgroup, shape: p.in.shape}}
	limited.in.shape.processes = 20
	a.check([]*Process{limited})

	_, err = p.Wait()
	require.NoError(t, err)
	require.Equal(t, TooMany, limited.cause)
}

// All commands together are bounded, and the largest is the one that ends
// (security review, M3).
func TestTotals_memory(t *testing.T) {
	t.Parallel()
	holders(t, Config{TotalMemory: 400 << 20}, func(t *testing.T, s *Sandbox) {
		small, large := newSession(t, s), newSession(t, s)

		var out said

		spec := small.spec(hold(60))
		spec.Stdout = &out
		quiet, err := s.Start(t.Context(), spec)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "HELD") }, time.Minute, 5*time.Millisecond)

		spec = large.spec("exec " + hold(600))
		_, r := sh(t, s, spec)
		require.Equal(t, OutOfMemory, r.Cause, "%v", r)

		select {
		case <-quiet.Done():
			t.Error("the small command ended too")
		default:
		}

		quiet.Kill()
	})
}

func TestTotals_processes(t *testing.T) {
	t.Parallel()
	holders(t, Config{TotalProcesses: 60}, func(t *testing.T, s *Sandbox) {
		var running []*Process

		for range 3 {
			p, err := s.Start(t.Context(), newSession(t, s).spec("for i in $(seq 40); do sleep 1000 & done; wait"))
			require.NoError(t, err)

			running = append(running, p)
		}

		count := func() (n int) {
			for _, p := range running {
				n += len(descendants(p.PID()))
			}

			return n
		}

		if s.cgroups.PIDs != "" {
			require.Eventually(t, func() bool { return count() > 40 }, time.Minute, time.Millisecond)
			require.Never(t, func() bool { return count() > 60 }, 300*time.Millisecond, 20*time.Millisecond)
		} else {
			ended := func() (n int) {
				for _, p := range running {
					select {
					case <-p.Done():
						require.Equal(t, TooMany, p.result.Cause)

						n++
					default:
					}
				}

				return n
			}

			require.Eventually(t, func() bool { return ended() == 2 }, time.Minute, time.Millisecond, "one has its 40 processes, two "+
				"do not fit")
			require.LessOrEqual(t, count(), 60)
		}

		for _, p := range running {
			p.Kill()
		}
	})
}

// Commands share the processors as one next to the service (security review, L7).
func TestCgroups_processorShare(t *testing.T) {
	t.Parallel()
	s := open(t, Config{CPUWeight: 50})
	p, err := s.Start(t.Context(), newSession(t, s).spec("sleep 1000"))
	require.NoError(t, err)

	defer p.Kill()

	if s.cgroups.CPU == "" {
		t.Skip("no control group for processors may be made here")
	}

	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID()))
	require.NoError(t, err)
	require.Contains(t, string(groups), filepath.Base(s.cgroups.CPU))

	file, want := "cpu.shares", strconv.Itoa(512*runtime.NumCPU())
	if s.cgroups.V2 {
		file, want = "cpu.weight", "50"
	}

	share, err := os.ReadFile(filepath.Join(s.cgroups.CPU, file))
	require.NoError(t, err)
	require.Equal(t, want, strings.TrimSpace(string(share)))

	measured := open(t, Config{noGroups: true})
	out, _ := sh(t, measured, newSession(t, measured).spec("nice"))
	require.Equal(t, "5", out, "without the controller the service's threads go first")
}

// said is output that may be read while it grows.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.b.String()
}
