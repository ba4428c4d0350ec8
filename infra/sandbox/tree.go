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
	if s.level == Namespaced || in.cgroup.Kill(killTime) {
		in.kill()
		return
	}

	for deadline := time.Now().Add(killTime); time.Now().Before(deadline); {
		// Stop before killing: a stopped process does not fork, and still counts
		// against the limit of processes, so that a fork bomb cannot outrun this.
		stopped := map[int]bool{}
		for {
			before := len(stopped)
			for _, pid := range descendants(in.pid) {
				if !stopped[pid] {
					stopped[pid] = true
					_ = unix.Kill(pid, unix.SIGSTOP)
				}
			}

			if len(stopped) == before || time.Now().After(deadline) {
				break
			}
		}

		if len(stopped) == 0 {
			break
		}

		for pid := range stopped {
			_ = unix.Kill(pid, unix.SIGKILL)
		}

		time.Sleep(time.Millisecond) // let process 1 reap
	}

	in.kill()
}

// userTasks counts the processes and threads of a user, as the kernel does for
// its limit of them.
func userTasks(uid int) int {
	proc, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}

	n := 0

	for _, entry := range proc {
		var st unix.Stat_t
		if entry.Name()[0] >= '0' && entry.Name()[0] <= '9' &&
			unix.Stat("/proc/"+entry.Name()+"/task", &st) == nil && int(st.Uid) == uid {
			n += int(st.Nlink) - 2
		}
	}

	return n
}

// descendants lists the living processes below pid, from /proc.
func descendants(pid int) []int { return below(processTree(), pid) }

// processTree returns the running processes of the host by parent.
func processTree() map[int][]int {
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

	return children
}

// below lists all processes below pid.
func below(children map[int][]int, pid int) []int {
	found := append([]int(nil), children[pid]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}

	return found
}
