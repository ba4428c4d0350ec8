//go:build linux

// Package seccomp decides which system calls a command in the sandbox may make, as a
// filter for the kernel. It does not install it: the sandbox does, last before the command.
package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data; arguments are 64 bits, low half first.
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16
	dataArg1 = 24
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

// bpf assembles a classic BPF program.
type bpf []unix.SockFilter

func (b *bpf) load(offset uint32) {
	*b = append(*b, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (b *bpf) ret(action uint32) {
	*b = append(*b, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
}

// jump continues jt instructions further when the test holds, else jf further.
func (b *bpf) jump(test uint16, k uint32, jt, jf uint8) {
	*b = append(*b, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: jt, Jf: jf, K: k})
}

// when answers action if the loaded word equals k, else continues.
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

// allow answers "allowed" for the calls, as few tests of ranges.
func (b *bpf) allow(calls []uint32) {
	calls = slices.Clone(calls)
	slices.Sort(calls)

	for i := 0; i < len(calls); {
		last := i
		for last+1 < len(calls) && calls[last+1] <= calls[last]+1 {
			last++
		}

		b.jump(unix.BPF_JGE, calls[i], 0, 2)
		b.jump(unix.BPF_JGT, calls[last], 1, 0)
		b.ret(retAllow)

		i = last + 1
	}
}

// Rule describes which of the conditional calls a command may make. Unix sockets are
// always allowed. All other families are refused to all processes: some of them (vsock,
// packet, alg) reach past a network namespace.
type Rule struct {
	Inet    bool // TCP and UDP, over IPv4 and IPv6: for a command alone in its network namespace
	Netlink bool // NETLINK_ROUTE, with which programs list interfaces
	Memfd   bool // files in memory, which only a control group counts
}

// Filter builds the system call filter.
func Filter(rule Rule) []unix.SockFilter {
	var b bpf
	b.load(dataArch)
	b.jump(unix.BPF_JEQ, auditArch, 1, 0)
	b.ret(retKill)
	b.load(dataNr)

	if x32Bit != 0 {
		b.jump(unix.BPF_JGE, x32Bit, 0, 1)
		b.ret(retErrno(unix.ENOSYS))
	}

	b.allow(Allowed())
	b.section(unix.SYS_CLONE, func(b *bpf) {
		b.load(dataArg0)
		b.jump(unix.BPF_JSET, namespaceFlags, 0, 1)
		b.ret(retErrno(unix.EPERM))
		b.ret(retAllow)
	})
	b.section(unix.SYS_SOCKET, rule.sockets)
	b.section(unix.SYS_SOCKETPAIR, func(b *bpf) {
		b.load(dataArg0)
		b.when(unix.AF_UNIX, retAllow)
		b.ret(retErrno(unix.EAFNOSUPPORT))
	})
	b.section(unix.SYS_IOCTL, func(b *bpf) {
		b.load(dataArg1)

		for _, request := range refusedRequests {
			b.when(request, retErrno(unix.EPERM))
		}

		b.ret(retAllow)
	})
	b.section(unix.SYS_PERSONALITY, func(b *bpf) {
		b.load(dataArg0)

		for _, persona := range allowedPersonas {
			b.when(persona, retAllow)
		}

		b.ret(retErrno(unix.EPERM))
	})

	if rule.Memfd {
		b.when(unix.SYS_MEMFD_CREATE, retAllow)
	}
	// A filter of the command's own may not hand calls to another process.
	b.section(unix.SYS_SECCOMP, func(b *bpf) {
		b.load(dataArg1)
		b.jump(unix.BPF_JSET, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1)
		b.ret(retErrno(unix.EPERM))
		b.ret(retAllow)
	})

	for _, nr := range Refused() {
		b.when(nr, retErrno(unix.EPERM))
	}

	b.ret(retErrno(unix.ENOSYS))

	return b
}

// refusedRequests are device requests: input faked on a terminal, the console's
// own, and those that change a file's flags or its quota's project.
var refusedRequests = []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.FS_IOC_SETFLAGS, fsSetXattr}

const fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR

// allowedPersonas are the execution domains that change no protection of the
// kernel: Linux, Linux on 32 bits, each also with a version of 2.6, and the
// query of the current one.
var allowedPersonas = []uint32{0, 0x8, 0x20000, 0x20008, 0xffffffff}

const (
	socketTypes = 0xf // the type, without its flags
	anyProtocol = 0   // the usual one of a family and type
)

// sockets decides about socket(family, type, protocol).
func (r Rule) sockets(b *bpf) {
	b.load(dataArg0)
	b.when(unix.AF_UNIX, retAllow)

	if r.Netlink {
		b.jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 4)
		b.load(dataArg2)
		b.when(unix.NETLINK_ROUTE, retAllow)
		b.ret(retErrno(unix.EAFNOSUPPORT))
	}

	if r.Inet {
		b.jump(unix.BPF_JEQ, unix.AF_INET, 2, 0)
		b.jump(unix.BPF_JEQ, unix.AF_INET6, 1, 0)
		b.ret(retErrno(unix.EAFNOSUPPORT))
		b.load(dataArg1)
		*b = append(*b, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: socketTypes})
		b.protocol(unix.SOCK_STREAM, unix.IPPROTO_TCP)
		b.protocol(unix.SOCK_DGRAM, unix.IPPROTO_UDP)
		b.ret(retErrno(unix.EPROTONOSUPPORT))

		return
	}

	b.ret(retErrno(unix.EAFNOSUPPORT))
}

// protocol allows one protocol of a socket type, which is loaded, and no other.
func (b *bpf) protocol(kind, protocol uint32) {
	b.jump(unix.BPF_JEQ, kind, 0, 6)
	b.load(dataArg2)
	b.when(anyProtocol, retAllow)
	b.when(protocol, retAllow)
	b.ret(retErrno(unix.EPROTONOSUPPORT))
}
