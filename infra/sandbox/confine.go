//go:build linux

package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/cgroup"
	"everloop/infra/sandbox/seccomp"
)

// The steps that every level's program shares.

// raiseOOMScore makes the kernel prefer the command to the service as a victim when the
// host itself runs out of memory. It runs first: later the process's own
// entries in /proc are owned by the overflow user.
func (p *program) raiseOOMScore() {
	fd := p.tryOpen(unix.SYS_OPENAT, atCWD, p.str("/proc/self/oom_score_adj"), num(unix.O_WRONLY|unix.O_CLOEXEC), none)
	p.try(unix.SYS_WRITE, fd, p.str("500"), num(3))
	p.try(unix.SYS_CLOSE, fd)
}

// giveWay lowers the priority below that of the service's threads where no control group shares
// the processors.
func (p *program) giveWay(held cgroup.Holds) {
	const niceness = 5
	if !held.CPU {
		p.try(unix.SYS_SETPRIORITY, num(unix.PRIO_PROCESS), none, num(niceness))
	}
}

// limits sets the resource limits. There is no limit on processor time: a
// build may take long, and the wall clock bounds it. Without a control group for
// memory there is a coarse limit for each process, in addition to the measured one for all.
// Without sh.processes only the control group bounds them.
func (p *program) limits(sh shape, held cgroup.Holds) {
	set := func(label string, resource int, value uint64) {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err == nil && value > now.Max {
			value = now.Max
		}

		p.call(label, unix.SYS_PRLIMIT64, none, num(resource), object(p, unix.Rlimit{Cur: value, Max: value}), none)
	}
	set("limit core files", unix.RLIMIT_CORE, 0)
	set("limit file sizes", unix.RLIMIT_FSIZE, uint64(sh.fileSize))
	set("limit open files", unix.RLIMIT_NOFILE, uint64(sh.openFiles))
	set("limit locked memory", unix.RLIMIT_MEMLOCK, 8<<20)
	set("limit message queues", unix.RLIMIT_MSGQUEUE, 1<<20)

	if sh.processes > 0 {
		set("limit processes", unix.RLIMIT_NPROC, uint64(sh.processes))
	}

	if !held.Memory {
		set("limit memory", unix.RLIMIT_DATA, uint64(sh.memory))
	}
}

// lastCapability is past the last one that the kernel knows; dropping an
// unknown one fails harmlessly.
const lastCapability = 63

// dropCapabilities gives up all capabilities permanently, also those that a
// program with a set-user-id bit or file capabilities would add.
func (p *program) dropCapabilities() {
	p.dropBounding()
	p.dropAll()
}

func (p *program) dropAll() {
	p.call(
		"drop capabilities",
		unix.SYS_CAPSET,
		object(p, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}),
		object(p, [2]unix.CapUserData{}),
	)
}

// dropBounding prevents capabilities from being regained.
func (p *program) dropBounding() {
	const secureBits = 0x23 // no capabilities for user 0 (locked), none kept (locked)
	p.try(unix.SYS_PRCTL, num(unix.PR_SET_SECUREBITS), num(secureBits), none, none, none)

	for c := range lastCapability {
		p.try(unix.SYS_PRCTL, num(unix.PR_CAPBSET_DROP), num(c), none, none, none)
	}

	p.try(unix.SYS_PRCTL, num(unix.PR_CAP_AMBIENT), num(unix.PR_CAP_AMBIENT_CLEAR_ALL), none, none, none)
}

// dieWithParent ends the sandbox with the fork server. It runs after the last change
// of users, which would undo it.
func (p *program) dieWithParent() {
	p.call("die with the service", unix.SYS_PRCTL, num(unix.PR_SET_PDEATHSIG), num(int(unix.SIGKILL)), none, none, none)
}

// finish ends every program: no new privileges, no looking into this process, and
// the system call filter as the very last.
func (p *program) finish(rule seccomp.Rule) {
	p.call("set the file mask", unix.SYS_UMASK, num(0o022))
	p.call("no new privileges", unix.SYS_PRCTL, num(unix.PR_SET_NO_NEW_PRIVS), num(1), none, none, none)
	p.call("hide from tracing", unix.SYS_PRCTL, num(unix.PR_SET_DUMPABLE), none, none, none, none)
	p.seccomp(rule)
}

// seccomp adds the call that installs the filter. It must be the last of a
// program, and every child of the process inherits it.
func (p *program) seccomp(rule seccomp.Rule) {
	f := seccomp.Filter(rule)
	code := p.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), uintptr(len(f))*unsafe.Sizeof(f[0])))
	// struct sock_fprog contains a pointer, which only the child can fill in.
	prog := object(p, struct{ len, filter uint64 }{len: uint64(len(f))})
	p.pointerAt(prog, 8, code)
	p.call("install the system call filter", unix.SYS_SECCOMP, num(unix.SECCOMP_SET_MODE_FILTER), none, prog)
}
