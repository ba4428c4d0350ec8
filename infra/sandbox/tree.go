//go:build linux

package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// killTree ends everything in a sandbox. With a process namespace that is one
// signal to its process 1. Without, the control group does it, or else a walk
// down from process 1, where every orphan ends up, until nothing is left.
func (s *Sandbox) killTree(in *instance) {
	if s.level == Namespaced || in.cgroup.kill() {
		in.kill()
		return
	}
	for deadline := time.Now().Add(killTime); time.Now().Before(deadline); {
		below := descendants(in.pid)
		if len(below) == 0 {
			break
		}
		for _, pid := range below {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond) // let process 1 reap
	}
	in.kill()
}

// descendants lists the living processes below pid, from /proc.
func descendants(pid int) []int {
	children := map[int][]int{}
	proc, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range proc {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name, in brackets, may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || fields[0][0] == 'Z' {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], id)
		}
	}
	found := append([]int(nil), children[pid]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}
