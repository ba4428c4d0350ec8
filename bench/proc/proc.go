// Package proc reads the CPU time and the memory of processes from /proc (Linux). It knows
// nothing of what is measured.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU times in /proc: USER_HZ, which is 100 on every
// Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// stat is what is used of /proc/PID/stat.
type stat struct {
	pid, parent int
	state       byte
	cpu         time.Duration // of the process and of its ended children
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}

	_, rest, found := bytes.Cut(text, []byte(") ")) // the name before it may hold anything but this

	fields := strings.Fields(string(rest))
	if !found || len(fields) < 15 {
		return stat{}, false
	}

	s := stat{pid: pid, state: fields[0][0]}

	s.parent, _ = strconv.Atoi(fields[1])
	for _, field := range fields[11:15] {
		ticks, _ := strconv.ParseInt(field, 10, 64)
		s.cpu += time.Duration(ticks) * clockTick
	}

	return s, true
}

// Alive reports whether a process still runs.
func Alive(pid int) bool {
	s, found := readStat(pid)
	return found && s.state != 'Z' && s.state != 'X'
}

func processes() []stat {
	entries, _ := filepath.Glob("/proc/[0-9]*")

	all := make([]stat, 0, len(entries))
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}

		if s, found := readStat(pid); found {
			all = append(all, s)
		}
	}

	return all
}

// tree gives a process and all below it.
func tree(root int) []stat {
	children := map[int][]stat{}

	var found []stat

	for _, s := range processes() {
		children[s.parent] = append(children[s.parent], s)
		if s.pid == root {
			found = append(found, s)
		}
	}

	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}

	return found
}

// FindCommand gives the process whose command line is exactly this one.
func FindCommand(args ...string) (pid int, found bool) {
	want := strings.Join(args, "\x00") + "\x00"
	for _, s := range processes() {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid)); err == nil && string(line) == want {
			return s.pid, true
		}
	}

	return 0, false
}

// kind is what a process of the service is: the service itself (empty), the
// sandbox with the commands in it, or PostgreSQL.
func kind(s stat, root int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.pid))
	switch {
	case s.pid == root:
		return ""
	case strings.HasPrefix(string(name), "postgres"):
		return "postgres"
	}

	return "sandbox"
}

// Memory is what a process tree holds, in bytes. PSS shares pages fairly among
// the processes that map them; the sum of RSS counts them once a process.
type Memory struct {
	RSS, PSS                  int64
	Service, Sandbox, Records int64 // PSS of the kinds of processes
	Processes                 int
}

// TreeMemory is the memory of a process and all below it.
func TreeMemory(root int) Memory {
	var m Memory

	for _, s := range tree(root) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.pid))
		if err != nil {
			continue
		}

		rss, pss := Field(text, "Rss:"), Field(text, "Pss:")
		m.Processes++
		m.RSS += rss
		m.PSS += pss

		switch kind(s, root) {
		case "postgres":
			m.Records += pss
		case "sandbox":
			m.Sandbox += pss
		default:
			m.Service += pss
		}
	}

	return m
}

// Field reads a line of smaps_rollup, which is in kB.
func Field(text []byte, name string) int64 {
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, name); found {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}

	return 0
}

// CPUTime is the CPU time of a process tree by the kinds of its processes.
type CPUTime struct{ Service, Sandbox, Records time.Duration }

// Sum is that of all kinds.
func (c CPUTime) Sum() time.Duration { return c.Service + c.Sandbox + c.Records }

// Minus takes another time off.
func (c CPUTime) Minus(o CPUTime) CPUTime {
	return CPUTime{c.Service - o.Service, c.Sandbox - o.Sandbox, c.Records - o.Records}
}

// Plus adds another time.
func (c CPUTime) Plus(o CPUTime) CPUTime {
	return CPUTime{c.Service + o.Service, c.Sandbox + o.Sandbox, c.Records + o.Records}
}

// TreeCPU is the CPU time of a process and all below it.
func TreeCPU(root int) (c CPUTime) {
	for _, s := range tree(root) {
		switch kind(s, root) {
		case "postgres":
			c.Records += s.cpu
		case "sandbox":
			c.Sandbox += s.cpu
		default:
			c.Service += s.cpu
		}
	}

	return c
}

// Meter measures CPU from its start.
type Meter struct {
	root      int
	began     time.Time
	tree      CPUTime
	own, busy time.Duration
}

// StartMeter starts a meter of a process and all below it.
func StartMeter(root int) *Meter {
	m := &Meter{root: root, began: time.Now()}
	m.tree, m.own, m.busy = TreeCPU(root), ownCPU(), machineBusy()

	return m
}

// Usage is the CPU time since a meter's start.
type Usage struct {
	Wall    time.Duration
	Tree    CPUTime
	Own     time.Duration
	Foreign float64 // share of all cores that other programs used
}

// Read gives the usage since the start.
func (m *Meter) Read() Usage {
	u := Usage{Wall: time.Since(m.began), Tree: TreeCPU(m.root).Minus(m.tree), Own: ownCPU() - m.own}
	foreign := machineBusy() - m.busy - u.Tree.Sum() - u.Own
	u.Foreign = max(0, float64(foreign)/float64(u.Wall)/float64(runtime.NumCPU()))

	return u
}

// ownCPU is that of this program: the model, the client and the baseline with
// its commands.
func ownCPU() time.Duration {
	var sum time.Duration

	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}

	return sum
}

// machineBusy is the time that all cores together were not idle.
func machineBusy() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")

	var busy int64

	for i, f := range strings.Fields(line) {
		// user nice system (idle iowait) irq softirq; steal is not counted
		if i >= 1 && i <= 7 && i != 4 && i != 5 {
			ticks, _ := strconv.ParseInt(f, 10, 64)
			busy += ticks
		}
	}

	return time.Duration(busy) * clockTick
}

// LoadAverage is the load of the machine over a minute.
func LoadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)

	return load
}
