//go:build linux

package sandbox

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"everloop/infra/sandbox/cgroup"
)

const (
	// accountPause is the time between two measurements while commands run.
	accountPause = 100 * time.Millisecond
	// accountShare bounds what measuring costs: a pause is at least this many
	// times as long as the measurement before it.
	accountShare = 20
)

// accounts enforce the limits of memory and processes where no control group does: a
// service that cannot create one measures the process trees of its commands, and
// ends those above a limit. What a command allocates between two measurements is not
// prevented; in addition, each process has its own limit.
type accounts struct {
	total cgroup.Totals
	held  cgroup.Holds

	mu      sync.Mutex
	live    map[*Process]bool
	running bool
}

func (a *accounts) needed() bool { return !a.held.Memory || !a.held.PIDs }

// add has a command measured until it is removed.
func (a *accounts) add(p *Process) {
	if !a.needed() {
		return
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	if a.live == nil {
		a.live = map[*Process]bool{}
	}

	a.live[p] = true
	if !a.running {
		a.running = true
		go a.run()
	}
}

func (a *accounts) remove(p *Process) {
	a.mu.Lock()
	defer a.mu.Unlock()

	delete(a.live, p)
}

// run measures for as long as there are commands.
func (a *accounts) run() {
	for pause := accountPause; ; {
		time.Sleep(pause) // the kernel does not report when a process takes memory
		a.mu.Lock()
		if len(a.live) == 0 {
			a.running = false
			a.mu.Unlock()

			return
		}

		live := make([]*Process, 0, len(a.live))
		for p := range a.live {
			live = append(live, p)
		}
		a.mu.Unlock()

		began := time.Now()

		a.check(live)

		pause = max(accountPause, accountShare*time.Since(began))
	}
}

// account is what one command uses.
type account struct {
	process   *Process
	pids      []int
	memory    int64 // bytes
	processes int   // processes and threads
}

// check ends the commands above their own limits, and, while all together are above
// theirs, the largest.
func (a *accounts) check(live []*Process) {
	children := processTree()

	var (
		within []account
		total  account
	)

	for _, p := range live {
		x := measure(p, children)
		if !a.held.Memory && x.memory > p.in.shape.memory {
			x.memory = x.proportional()
		}

		switch {
		case !a.held.Memory && x.memory > p.in.shape.memory:
			p.end(OutOfMemory)
		case !a.held.PIDs && x.processes > p.in.shape.processes:
			p.end(TooMany)
		default:
			within = append(within, x)
			total.memory += x.memory
			total.processes += x.processes
		}
	}

	if !a.held.Memory && total.memory > a.total.Memory {
		total.memory = 0
		for i := range within {
			within[i].memory = within[i].proportional()
			total.memory += within[i].memory
		}

		endLargest(within, OutOfMemory, total.memory-a.total.Memory, func(x account) int64 { return x.memory })
	}

	if !a.held.PIDs {
		endLargest(within, TooMany, int64(total.processes-a.total.Processes), func(x account) int64 { return int64(x.processes) })
	}
}

// endLargest ends the largest commands until the rest is within the limit.
func endLargest(commands []account, cause Cause, tooMuch int64, size func(account) int64) {
	for ended := map[int]bool{}; tooMuch > 0 && len(ended) < len(commands); {
		largest := -1
		for i := range commands {
			if !ended[i] && (largest < 0 || size(commands[i]) > size(commands[largest])) {
				largest = i
			}
		}

		ended[largest] = true
		tooMuch -= size(commands[largest])
		commands[largest].process.end(cause)
	}
}

// measure adds up a command's processes. Pages that several of them share count
// several times: see proportional.
func measure(p *Process, children map[int][]int) account {
	x := account{process: p, pids: below(children, p.in.pid)}
	for _, pid := range x.pids {
		fields := statusFields(pid, "status", "Threads:", "RssAnon:", "RssShmem:", "VmSwap:")
		x.processes += int(fields[0])
		x.memory += 1024 * (fields[1] + fields[2] + fields[3])
	}

	return x
}

// proportional returns the memory of a command with each shared page counted once. It
// walks all pages, so it is read only near a limit. A process that is
// ending has no memory; where the kernel has no such list, or does not show
// it, all that the process has counts.
func (x account) proportional() int64 {
	var sum int64

	for _, pid := range x.pids {
		shared := statusFields(pid, "smaps_rollup", "Pss_Anon:", "Pss_Shmem:", "SwapPss:")
		if shared[0]+shared[1]+shared[2] == 0 {
			shared = statusFields(pid, "status", "RssAnon:", "RssShmem:", "VmSwap:")
		}

		sum += 1024 * (shared[0] + shared[1] + shared[2])
	}

	return sum
}

// statusFields reads numbers from a process's list of "Name: number" lines; what is
// missing is 0.
func statusFields(pid int, list string, names ...string) []int64 {
	values := make([]int64, len(names))

	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + list)
	if err != nil {
		return values // the process has ended
	}

	for line := range strings.Lines(string(data)) {
		for i, name := range names {
			if rest, ok := strings.CutPrefix(line, name); ok {
				number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				values[i], _ = strconv.ParseInt(number, 10, 64)
			}
		}
	}

	return values
}
