//go:build linux

package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data; arguments are 64 bits, low half first.
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16
	dataArg2 = 32
)

const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retKill  = unix.SECCOMP_RET_KILL_PROCESS
)

func retErrno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// namespaceFlags are the clone flags that a command may not use. (A time
// namespace cannot be asked for through clone.)
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// deniedCalls answer EPERM. Some would fail for want of a capability anyway:
// the list is a second fence, and keeps rarely used kernel code out of reach.
var deniedCalls = []uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	// namespaces and mounts
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
	unix.SYS_LISTNS, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	// programs in the kernel, tracing, asynchronous calls that no filter sees
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_LOOKUP_DCOOKIE,
	// keys are not namespaced
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// the machine
	unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_DELETE_MODULE, unix.SYS_SYSLOG, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_VHANGUP, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_NFSSERVCTL,
	// opening by handle passes by every path check
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
}

// absentCalls answer ENOSYS, for which programs have a way round: clone3 hides
// its flags from the filter (the C library then uses clone), io_uring does
// its work outside of any filter.
var absentCalls = []uint32{
	unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MEMFD_SECRET,
}

// bpf assembles a classic BPF program.
type bpf []unix.SockFilter

func (b *bpf) load(offset uint32) {
	*b = append(*b, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (b *bpf) ret(action uint32) {
	*b = append(*b, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
}

// jump goes on jt instructions further when the test holds, else jf further.
func (b *bpf) jump(test uint16, k uint32, jt, jf uint8) {
	*b = append(*b, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: jt, Jf: jf, K: k})
}

// when answers action if the loaded word equals k, else goes on.
func (b *bpf) when(k, action uint32) {
	b.jump(unix.BPF_JEQ, k, 0, 1)
	b.ret(action)
}

// section runs body only for call nr; body must end each of its paths.
func (b *bpf) section(nr uint32, body func(*bpf)) {
	var in bpf
	body(&in)
	b.jump(unix.BPF_JEQ, nr, 0, uint8(len(in)))
	*b = append(*b, in...)
}

// socketRule says which sockets a command may make.
type socketRule struct {
	families []uint32
	netlink  bool // NETLINK_ROUTE, with which programs list interfaces
}

var (
	// ownNetwork is for a command alone in its network namespace. Everything
	// not listed is refused: some families (vsock, packet, alg) reach past
	// the namespace.
	ownNetwork = socketRule{families: []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}, netlink: true}
	// hostNetwork is for a command that shares the host's network namespace.
	hostNetwork = socketRule{families: []uint32{unix.AF_UNIX}}
)

// filter builds the system call filter.
func filter(sockets socketRule) bpf {
	var b bpf
	b.load(dataArch)
	b.jump(unix.BPF_JEQ, auditArch, 1, 0)
	b.ret(retKill)
	b.load(dataNr)
	if x32Bit != 0 {
		b.jump(unix.BPF_JGE, x32Bit, 0, 1)
		b.ret(retErrno(unix.ENOSYS))
	}
	for _, nr := range absentCalls {
		b.when(nr, retErrno(unix.ENOSYS))
	}
	for _, nr := range append(deniedCalls, deniedArch...) {
		b.when(nr, retErrno(unix.EPERM))
	}
	b.section(unix.SYS_CLONE, func(b *bpf) {
		b.load(dataArg0)
		b.jump(unix.BPF_JSET, namespaceFlags, 0, 1)
		b.ret(retErrno(unix.EPERM))
		b.ret(retAllow)
	})
	b.section(unix.SYS_SOCKET, func(b *bpf) {
		b.load(dataArg0)
		for _, family := range sockets.families {
			b.when(family, retAllow)
		}
		if sockets.netlink {
			b.jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3)
			b.load(dataArg2)
			b.when(unix.NETLINK_ROUTE, retAllow)
		}
		b.ret(retErrno(unix.EAFNOSUPPORT))
	})
	b.section(unix.SYS_SOCKETPAIR, func(b *bpf) {
		b.load(dataArg0)
		b.when(unix.AF_UNIX, retAllow)
		b.ret(retErrno(unix.EAFNOSUPPORT))
	})
	// Faking input to the terminal, and the console's.
	b.section(unix.SYS_IOCTL, func(b *bpf) {
		b.load(dataArg0 + 8)
		b.when(unix.TIOCSTI, retErrno(unix.EPERM))
		b.when(unix.TIOCLINUX, retErrno(unix.EPERM))
		b.ret(retAllow)
	})
	b.ret(retAllow)
	return b
}

// seccomp adds the call that installs the filter. It must be the last of a
// program, and every child of the process inherits it.
func (p *program) seccomp(sockets socketRule) {
	f := filter(sockets)
	code := p.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), uintptr(len(f))*unsafe.Sizeof(f[0])))
	// struct sock_fprog holds a pointer, which only the child can fill in.
	prog := object(p, struct{ len, filter uint64 }{len: uint64(len(f))})
	p.pointerAt(prog, 8, code)
	p.call("install the system call filter", unix.SYS_SECCOMP, num(unix.SECCOMP_SET_MODE_FILTER), none, prog)
}
