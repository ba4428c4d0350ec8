//go:build linux

package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Totals bound all commands together, so that they leave room for the service and
// the rest of the host.
type Totals struct {
	Memory    int64 // bytes
	Processes int   // processes and threads
}

// orShares returns the configured bounds, or shares of the host's limits.
func (t Totals) orShares(mounts map[string]string) Totals {
	if t.Memory <= 0 {
		t.Memory = availableMemory(mounts) / 4 * 3
	}

	if t.Processes <= 0 {
		t.Processes = int(availableProcesses(mounts) / 2)
	}

	return t
}

// availableMemory returns the memory, in bytes, that the service's own control groups and
// the host permit.
func availableMemory(mounts map[string]string) int64 {
	available := int64(math.MaxInt64)

	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		available = int64(info.Totalram) * int64(info.Unit)
	}

	return min(available, lowestLimit(mounts[""], "memory.max"), lowestLimit(mounts["memory"], "memory.limit_in_bytes"))
}

// availableProcesses is likewise the number of processes and threads.
func availableProcesses(mounts map[string]string) int64 {
	return min(readLimit("/proc/sys/kernel/pid_max"), readLimit("/proc/sys/kernel/threads-max"),
		lowestLimit(mounts[""], "pids.max"), lowestLimit(mounts["pids"], "pids.max"))
}

// lowestLimit returns the lowest of a limit in a control group and those above it; they
// all hold.
func lowestLimit(dir, file string) int64 {
	lowest := int64(math.MaxInt64)
	for ; dir != "" && dir != "/"; dir = filepath.Dir(dir) {
		lowest = min(lowest, readLimit(filepath.Join(dir, file)))
	}

	return lowest
}

// readLimit reads a number from a kernel file; a missing file and "max" are none.
func readLimit(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}

	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}

	return n
}
