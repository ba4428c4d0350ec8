//go:build linux

package sandbox

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
)

// cgroups makes one control group a sandbox, below the group that the service
// itself is in, so that the limits put on the service hold for its commands
// too. Both hierarchies are supported; where the service may not make groups
// (not root, nothing delegated) there are none and rlimits have to do.
type cgroups struct {
	memory, pids, cpu string // base directory by controller; all the same in version 2; "" is absent
	v2                bool
	total             totals // of all sandboxes together
	refused           error  // why there are no groups although they could be made
	next              atomic.Uint64
}

// cgroup is the group of one sandbox.
type cgroup struct {
	owner *cgroups
	dirs  []string
	name  string
}

// socketShare is the part of a command's memory that it may use for sockets on top
// of it, where a control group counts them apart.
const socketShare = 8

const cgroupPrefix = "everloop-sandbox-"

// holds says which limits the kernel holds by control groups. The others are
// measured: see accounts.
type holds struct{ memory, pids, cpu bool }

func (c *cgroups) holds() holds { return holds{c.memory != "", c.pids != "", c.cpu != ""} }

// findCgroups makes the base groups, with their limits. Where a limit is refused,
// there are no groups, and commands are measured.
func findCgroups(config Config) *cgroups {
	c := &cgroups{}

	mounts := map[string]string{}
	if !config.noGroups {
		mounts = cgroupMounts("self")
	}

	c.total = config.totals(mounts)
	if config.Containers != nil {
		return c // their engine makes groups, and nothing holds the total
	}

	c.makeBases(mounts)

	if err := c.limitBases(config.CPUWeight); err != nil {
		c.close()
		return &cgroups{total: c.total, refused: err}
	}

	return c
}

func (c *cgroups) makeBases(mounts map[string]string) {
	if base, ok := mounts[""]; ok && hasControllers(base) && delegate(base) {
		if dir, err := makeBase(base); err == nil && enable(dir) == nil {
			c.memory, c.pids, c.cpu, c.v2 = dir, dir, dir, true
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
	c.memory, c.pids, c.cpu = base("memory"), base("pids"), base("cpu")
}

// limitBases bounds all sandboxes together and gives them their share of the
// processors.
func (c *cgroups) limitBases(weight int) error {
	memory, pids := strconv.FormatInt(c.total.memory, 10), strconv.Itoa(c.total.processes)
	if c.v2 {
		_ = writeFile(filepath.Join(c.cpu, "cpu.weight"), strconv.Itoa(weight)) // where the controller is
		return errors.Join(writeFile(filepath.Join(c.memory, "memory.max"), memory), writeFile(filepath.Join(c.pids, "pids.max"), pids))
	}

	var errs []error
	if c.memory != "" {
		errs = append(errs, writeFile(filepath.Join(c.memory, "memory.limit_in_bytes"), memory))
		_ = writeFile(filepath.Join(c.memory, "memory.kmem.tcp.limit_in_bytes"), strconv.FormatInt(c.total.memory/socketShare, 10))
	}

	if c.pids != "" {
		errs = append(errs, writeFile(filepath.Join(c.pids, "pids.max"), pids))
	}

	if c.cpu != "" {
		// The group competes with single threads, of which each has this weight.
		const threadShares, fullWeight = 1024, 100

		shares := max(2, weight*threadShares*runtime.NumCPU()/fullWeight)
		errs = append(errs, writeFile(filepath.Join(c.cpu, "cpu.shares"), strconv.Itoa(shares)))
	}

	return errors.Join(errs...)
}

// adopt puts the fork server, before it has children, where they all share the
// processors as one. Version 2 needs no such step: each sandbox's group is there.
func (c *cgroups) adopt(forkServer int) error {
	if c.v2 || c.cpu == "" {
		return nil
	}

	return writeFile(filepath.Join(c.cpu, "cgroup.procs"), strconv.Itoa(forkServer))
}

// describe says what holds the limits, for operators.
func (c *cgroups) describe() string {
	var have []string

	for name, dir := range map[string]string{"memory": c.memory, "pids": c.pids, "cpu": c.cpu} {
		if dir != "" {
			have = append(have, name)
		}
	}

	switch {
	case c.v2:
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

// memoryGroup finds the group that holds the memory of a process of another's making.
func memoryGroup(pid int) *cgroups {
	mounts := cgroupMounts(strconv.Itoa(pid))
	if dir, ok := mounts["memory"]; ok {
		return &cgroups{memory: dir}
	}

	return &cgroups{memory: mounts[""], v2: true}
}

// cgroupMounts gives the directory of a process by version 1 controller, and under ""
// the one of version 2.
func cgroupMounts(pid string) map[string]string {
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

// makeBase makes the service's own group for sandboxes and removes those that
// services which are gone left behind.
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

// hasControllers says whether the version 2 group offers what is needed.
func hasControllers(dir string) bool {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	list := " " + strings.TrimSpace(string(data)) + " "

	return strings.Contains(list, " memory ") && strings.Contains(list, " pids ")
}

// delegate lets children of the service's own version 2 group have
// controllers. A group with processes in it may not; when they are the
// service's alone (a unit with Delegate=yes, a container) they move to a group
// beside the sandboxes.
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

	return writeFile(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(os.Getpid())) == nil && enable(dir) == nil
}

func enable(dir string) error {
	if err := writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+memory +pids"); err != nil {
		return err
	}

	_ = writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+cpu")

	return nil
}

// new makes the group of a sandbox. It fails only when a base exists and
// refuses: limits that were promised are never silently missing.
func (c *cgroups) new(sh shape) (*cgroup, error) {
	g := &cgroup{owner: c, name: strconv.FormatUint(c.next.Add(1), 10)}
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
			if err := writeFile(filepath.Join(dir, name), values[i+1]); err != nil && !optional {
				return fmt.Errorf("sandbox: control group: %w", err)
			}
		}

		return nil
	}
	memory, pids := strconv.FormatInt(sh.memory, 10), strconv.Itoa(sh.processes+1) // one is process 1

	var err error
	if c.v2 {
		err = set(c.memory, "memory.max", memory, "?memory.swap.max", "0", "?memory.oom.group", "1", "pids.max", pids)
		if err == nil && sh.cpu > 0 {
			err = set(c.cpu, "cpu.max", fmt.Sprintf("%d 100000", int(sh.cpu*100000)))
		}
	} else {
		// Version 1 counts the buffers of sockets apart, and version 2 with the rest.
		sockets := strconv.FormatInt(sh.memory/socketShare, 10)

		err = set(c.memory, "memory.limit_in_bytes", memory, "?memory.memsw.limit_in_bytes", memory,
			"?memory.kmem.tcp.limit_in_bytes", sockets)
		if err == nil {
			err = set(c.pids, "pids.max", pids)
		}

		if err == nil && sh.cpu > 0 {
			err = set(c.cpu, "cpu.cfs_quota_us", strconv.Itoa(int(sh.cpu*100000)))
		}
	}

	if err != nil {
		g.remove()
		return nil, err
	}

	return g, nil
}

// attach moves a process, before it has children, into the group.
func (g *cgroup) attach(pid int) error {
	for _, dir := range g.dirs {
		if err := writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("sandbox: control group: %w", err)
		}
	}

	return nil
}

// outOfMemory says whether the kernel killed a process for the memory limit.
func (g *cgroup) outOfMemory() bool {
	if g.owner.memory == "" {
		return false
	}

	file := "memory.oom_control"
	if g.owner.v2 {
		file = "memory.events"
	}

	data, _ := os.ReadFile(filepath.Join(g.owner.memory, g.name, file))
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}

	return false
}

// kill ends every process of the group and reports whether it could: with
// process counting there is no outrunning it.
func (g *cgroup) kill() bool {
	if g.owner.pids == "" || len(g.dirs) == 0 {
		return false
	}

	dir := filepath.Join(g.owner.pids, g.name)
	if g.owner.v2 && writeFile(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return true
	}

	if writeFile(filepath.Join(dir, "pids.max"), "0") != nil {
		return false
	}

	for deadline := time.Now().Add(killTime); time.Now().Before(deadline); {
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

// remove takes the group away; its processes are dead.
func (g *cgroup) remove() {
	for _, dir := range g.dirs {
		for range 100 {
			if err := os.Remove(dir); !errors.Is(err, unix.EBUSY) {
				break
			}

			time.Sleep(time.Millisecond) // the last process is not yet reaped
		}
	}
}

// close removes the base groups.
func (c *cgroups) close() {
	for _, dir := range []string{c.memory, c.pids, c.cpu} {
		if dir != "" {
			removeTree(dir)
		}
	}
}

// writeFile writes a kernel file, which must exist, in one call.
func writeFile(path, content string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()

	if _, err := unix.Write(fd, []byte(content)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}

	return nil
}
