//go:build linux

// Package cgroup limits the memory, processes and processors of sandboxes by control
// groups of version 1 or 2, where the host allows the service to create them. It must not
// know how commands are confined or started.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/kernelfile"
)

// Root creates one control group for each sandbox, below the group that the service
// itself is in, so that the limits of the service also apply to its commands.
// Both hierarchies are supported; where the service cannot create groups
// (not root, no delegation) there are none, and only rlimits apply.
type Root struct {
	Memory, PIDs, CPU string // base directory by controller; all the same in version 2; "" is absent
	V2                bool
	Total             Totals // of all sandboxes together
	refused           error  // why there are no groups although they could be created
	next              atomic.Uint64
}

// Limits are the limits of one sandbox.
type Limits struct {
	Memory    int64 // bytes
	Processes int
	CPU       float64 // processors; 0: not limited
}

// Group is the group of one sandbox.
type Group struct {
	owner *Root
	dirs  []string
	name  string
}

// socketShare is the part of a command's memory that it may use for sockets on top
// of it, where a control group counts them apart.
const socketShare = 8

const cgroupPrefix = "everloop-sandbox-"

// Holds describes which limits the kernel enforces by control groups.
type Holds struct{ Memory, PIDs, CPU bool }

// Holds returns which limits the groups of sandboxes hold.
func (c *Root) Holds() Holds { return Holds{c.Memory != "", c.PIDs != "", c.CPU != ""} }

// Config describes the groups to create.
type Config struct {
	// Total bounds all sandboxes together; zeros mean shares of what the host permits.
	Total Totals
	// CPUWeight is the share of the processors of all sandboxes together, from 1 to 10000.
	CPUWeight int
	// Elsewhere reports that a container engine creates the groups, and nothing enforces the total.
	Elsewhere bool
	// None is for tests: as on a host where no control group may be made.
	None bool
}

// Find creates the base groups with their limits. Where a limit is refused,
// there are no groups, and commands are measured.
func Find(config Config) *Root {
	c := &Root{}

	mounts := map[string]string{}
	if !config.None {
		mounts = mountsOf("self")
	}

	c.Total = config.Total.orShares(mounts)
	if config.Elsewhere {
		return c
	}

	c.makeBases(mounts)

	if err := c.limitBases(config.CPUWeight); err != nil {
		c.Close()
		return &Root{Total: c.Total, refused: err}
	}

	return c
}

func (c *Root) makeBases(mounts map[string]string) {
	if base, ok := mounts[""]; ok && hasControllers(base) && delegate(base) {
		if dir, err := makeBase(base); err == nil && enable(dir) == nil {
			c.Memory, c.PIDs, c.CPU, c.V2 = dir, dir, dir, true
			return
		}
	}

	made := map[string]string{}
	base := func(controller string) string {
		parent, ok := mounts[controller]
		if !ok {
			return ""
		}

		if made[parent] == "" {
			dir, err := makeBase(parent)
			if err != nil {
				return ""
			}

			made[parent] = dir
		}

		return made[parent]
	}
	c.Memory, c.PIDs, c.CPU = base("memory"), base("pids"), base("cpu")
}

// limitBases bounds all sandboxes together and sets their share of the
// processors.
func (c *Root) limitBases(weight int) error {
	memory, pids := strconv.FormatInt(c.Total.Memory, 10), strconv.Itoa(c.Total.Processes)
	if c.V2 {
		_ = kernelfile.Write(filepath.Join(c.CPU, "cpu.weight"), strconv.Itoa(weight)) // where the controller is

		return errors.Join(
			kernelfile.Write(filepath.Join(c.Memory, "memory.max"), memory),
			kernelfile.Write(filepath.Join(c.PIDs, "pids.max"), pids),
		)
	}

	var errs []error
	if c.Memory != "" {
		errs = append(errs, kernelfile.Write(filepath.Join(c.Memory, "memory.limit_in_bytes"), memory))
		_ = kernelfile.Write(filepath.Join(c.Memory, "memory.kmem.tcp.limit_in_bytes"), strconv.FormatInt(c.Total.Memory/socketShare, 10))
	}

	if c.PIDs != "" {
		errs = append(errs, kernelfile.Write(filepath.Join(c.PIDs, "pids.max"), pids))
	}

	if c.CPU != "" {
		// The group competes with single threads, of which each has this weight.
		const threadShares, fullWeight = 1024, 100

		shares := max(2, weight*threadShares*runtime.NumCPU()/fullWeight)
		errs = append(errs, kernelfile.Write(filepath.Join(c.CPU, "cpu.shares"), strconv.Itoa(shares)))
	}

	return errors.Join(errs...)
}

// Adopt puts the fork server, before it has children, where they all share the
// processors as one. Version 2 needs no such step: each sandbox's group is there.
func (c *Root) Adopt(forkServer int) error {
	if c.V2 || c.CPU == "" {
		return nil
	}

	return kernelfile.Write(filepath.Join(c.CPU, "cgroup.procs"), strconv.Itoa(forkServer))
}

// Describe returns how the limits are enforced, for operators.
func (c *Root) Describe() string {
	var have []string

	for name, dir := range map[string]string{"memory": c.Memory, "pids": c.PIDs, "cpu": c.CPU} {
		if dir != "" {
			have = append(have, name)
		}
	}

	switch {
	case c.V2:
		return "cgroup v2"
	case len(have) == 3:
		return "cgroup v1"
	case c.refused != nil:
		return "measuring (the control groups here refuse limits: " + c.refused.Error() + ")"
	case len(have) == 0:
		return "measuring (no control group with limits may be made here)"
	}

	return "cgroup v1 (" + strings.Join(have, ", ") + " only), measuring for the rest"
}

// OfProcess returns the group, created by another program, that accounts for the memory of a process. It
// can be read only.
func OfProcess(pid int) *Group {
	mounts := mountsOf(strconv.Itoa(pid))
	if dir, ok := mounts["memory"]; ok {
		return &Group{owner: &Root{Memory: dir}}
	}

	return &Group{owner: &Root{Memory: mounts[""], V2: true}}
}

// mountsOf returns the directory of a process by version 1 controller, and under ""
// the one of version 2.
func mountsOf(pid string) map[string]string {
	own := map[string]string{}

	data, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return nil
	}

	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			for controller := range strings.SplitSeq(parts[1], ",") {
				own[controller] = parts[2]
			}
		}
	}

	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}

	defer func() { _ = f.Close() }()

	dirs := map[string]string{}

	for scan := bufio.NewScanner(f); scan.Scan(); {
		before, after, ok := strings.Cut(scan.Text(), " - ")

		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 3 {
			continue
		}

		within := func(controller string) {
			path, ok := own[controller]
			if rel, inside := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/")); ok && inside {
				dirs[controller] = filepath.Join(fields[4], rel)
			}
		}

		switch rest[0] {
		case "cgroup2":
			within("")
		case "cgroup":
			for option := range strings.SplitSeq(rest[2], ",") {
				if option == "memory" || option == "pids" || option == "cpu" {
					within(option)
				}
			}
		}
	}

	return dirs
}

// makeBase creates the service's own group for sandboxes and removes groups that
// terminated services left.
func makeBase(parent string) (string, error) {
	stale, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, dir := range stale {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			removeTree(dir)
		}
	}

	return os.MkdirTemp(parent, cgroupPrefix+strconv.Itoa(os.Getpid())+"-")
}

func removeTree(dir string) {
	children, _ := os.ReadDir(dir)
	for _, c := range children {
		if c.IsDir() {
			_ = os.Remove(filepath.Join(dir, c.Name()))
		}
	}

	_ = os.Remove(dir)
}

// hasControllers reports whether the version 2 group offers the required controllers.
func hasControllers(dir string) bool {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	list := " " + strings.TrimSpace(string(data)) + " "

	return strings.Contains(list, " memory ") && strings.Contains(list, " pids ")
}

// delegate enables controllers for children of the service's own version 2 group.
// A group that contains processes cannot have them; when the processes are the
// service's alone (a unit with Delegate=yes, a container) they move to a sibling group
// of the sandboxes.
func delegate(dir string) bool {
	if enable(dir) == nil {
		return true
	}

	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(procs)) != strconv.Itoa(os.Getpid()) {
		return false
	}

	leaf := filepath.Join(dir, "everloop-service")
	if err := os.Mkdir(leaf, 0o755); err != nil && !os.IsExist(err) {
		return false
	}

	return kernelfile.Write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(os.Getpid())) == nil && enable(dir) == nil
}

func enable(dir string) error {
	if err := kernelfile.Write(filepath.Join(dir, "cgroup.subtree_control"), "+memory +pids"); err != nil {
		return err
	}

	_ = kernelfile.Write(filepath.Join(dir, "cgroup.subtree_control"), "+cpu")

	return nil
}

// New creates the group of a sandbox. It fails only when a base exists and
// refuses: limits that were promised are never silently missing.
func (c *Root) New(limits Limits) (*Group, error) {
	g := &Group{owner: c, name: strconv.FormatUint(c.next.Add(1), 10)}
	make := func(base string) (string, error) {
		dir := filepath.Join(base, g.name)
		for _, have := range g.dirs {
			if have == dir {
				return dir, nil
			}
		}

		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("sandbox: control group: %w", err)
		}

		g.dirs = append(g.dirs, dir)

		return dir, nil
	}
	set := func(base string, values ...string) error {
		if base == "" {
			return nil
		}

		dir, err := make(base)
		if err != nil {
			return err
		}

		for i := 0; i < len(values); i += 2 {
			name, optional := strings.CutPrefix(values[i], "?")
			if err := kernelfile.Write(filepath.Join(dir, name), values[i+1]); err != nil && !optional {
				return fmt.Errorf("sandbox: control group: %w", err)
			}
		}

		return nil
	}
	memory, pids := strconv.FormatInt(limits.Memory, 10), strconv.Itoa(limits.Processes+1) // one is process 1

	var err error
	if c.V2 {
		err = set(c.Memory, "memory.max", memory, "?memory.swap.max", "0", "?memory.oom.group", "1", "pids.max", pids)
		if err == nil && limits.CPU > 0 {
			err = set(c.CPU, "cpu.max", fmt.Sprintf("%d 100000", int(limits.CPU*100000)))
		}
	} else {
		// Version 1 counts the buffers of sockets apart, and version 2 with the rest.
		sockets := strconv.FormatInt(limits.Memory/socketShare, 10)

		err = set(c.Memory, "memory.limit_in_bytes", memory, "?memory.memsw.limit_in_bytes", memory,
			"?memory.kmem.tcp.limit_in_bytes", sockets)
		if err == nil {
			err = set(c.PIDs, "pids.max", pids)
		}

		if err == nil && limits.CPU > 0 {
			err = set(c.CPU, "cpu.cfs_quota_us", strconv.Itoa(int(limits.CPU*100000)))
		}
	}

	if err != nil {
		g.Remove()
		return nil, err
	}

	return g, nil
}

// Attach moves a process, before it has children, into the group.
func (g *Group) Attach(pid int) error {
	for _, dir := range g.dirs {
		if err := kernelfile.Write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("sandbox: control group: %w", err)
		}
	}

	return nil
}

// OutOfMemory reports whether the kernel killed a process for the memory limit.
func (g *Group) OutOfMemory() bool {
	if g.owner.Memory == "" {
		return false
	}

	file := "memory.oom_control"
	if g.owner.V2 {
		file = "memory.events"
	}

	data, _ := os.ReadFile(filepath.Join(g.owner.Memory, g.name, file))
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}

	return false
}

// Kill ends every process of the group within a time and reports whether it could: with
// process counting, a fork bomb cannot escape it.
func (g *Group) Kill(within time.Duration) bool {
	if g.owner.PIDs == "" || len(g.dirs) == 0 {
		return false
	}

	dir := filepath.Join(g.owner.PIDs, g.name)
	if g.owner.V2 && kernelfile.Write(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return true
	}

	if kernelfile.Write(filepath.Join(dir, "pids.max"), "0") != nil {
		return false
	}

	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return false
		}

		if len(data) == 0 {
			return true
		}

		for pid := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = unix.Kill(n, unix.SIGKILL)
			}
		}

		time.Sleep(time.Millisecond) // the kernel has no event for an empty version 1 group
	}

	return false
}

// Remove removes the group; its processes must be dead.
func (g *Group) Remove() {
	for _, dir := range g.dirs {
		for range 100 {
			if err := os.Remove(dir); !errors.Is(err, unix.EBUSY) {
				break
			}

			time.Sleep(time.Millisecond) // the last process is not yet reaped
		}
	}
}

// Close removes the base groups.
func (c *Root) Close() {
	for _, dir := range []string{c.Memory, c.PIDs, c.CPU} {
		if dir != "" {
			removeTree(dir)
		}
	}
}
