//go:build linux

package forkserver

import (
	"syscall"
	"unsafe"
)

// Everything in this file runs in the forked child, where the Go runtime is
// not usable: the other threads do not exist, perhaps with locks held. So: no
// allocation, no growing stack (nosplit), no stores of pointers (a garbage
// collection may be frozen half-way), system calls by number only.

// Values that package syscall does not have, the same on all architectures
// that Go's linux port uses.
const (
	prSetChildSubreaper = 36
	msgCmsgCloexec      = 0x40000000
	clonePidfd          = 0x1000
	sysCloseRange       = 436
	sigSetmask          = 2
	sigDfl              = 0
	sigIgn              = 1
	atFDCWD             = -100
)

type sigaction struct {
	handler, flags, restorer, mask uintptr
}

type msghdr struct {
	name       uintptr
	namelen    uint64
	iov        uintptr
	iovlen     uint64
	control    uintptr
	controllen uint64
	flags      uint64
}

type iovec struct {
	base uintptr
	len  uint64
}

type cmsg struct {
	len   uint64
	level int32
	typ   int32
	fds   [MaxFiles]int32
}

var (
	allSignals uint64 = ^uint64(0)
	noSignals  uint64
	oldSignals uint64
	action     sigaction
	iov        iovec
	msg        msghdr
	control    cmsg
	report     Report
	status     uint32
	usage      syscall.Rusage
)

//go:nosplit
//go:norace
//go:nocheckptr
func raw(nr, a, b, c, d, e, f uintptr) (uintptr, syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(nr, a, b, c, d, e, f)
	return r, errno
}

//go:nosplit
//go:norace
//go:nocheckptr
func exit(code uintptr) {
	for {
		raw(syscall.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func setSignal(sig, handler uintptr) {
	action = sigaction{handler: handler}
	raw(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

//go:nosplit
//go:norace
//go:nocheckptr
func word(offset uintptr) *uintptr {
	return (*uintptr)(unsafe.Add(unsafe.Pointer(&start), offset))
}

//go:nosplit
//go:norace
//go:nocheckptr
func opAt(i uintptr) *Op {
	return (*Op)(unsafe.Add(unsafe.Pointer(&request), headerSize+i*opSize))
}

// fork starts a child for the program in request. It returns in the parent only.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fork() (uintptr, syscall.Errno) {
	flags := uintptr((*Header)(unsafe.Pointer(&request)).CloneFlags) | clonePidfd | uintptr(syscall.SIGCHLD)

	raw(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&allSignals)), uintptr(unsafe.Pointer(&oldSignals)), 8, 0, 0)

	pid, errno := raw(syscall.SYS_CLONE, flags, 0, uintptr(unsafe.Pointer(&pidfd)), 0, 0, 0)
	if pid == 0 && errno == 0 {
		child()
	}

	raw(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&oldSignals)), 0, 8, 0, 0)

	return pid, errno
}

// child is the life of process 1 of a sandbox; it does not return.
//
//go:nosplit
//go:norace
//go:nocheckptr
func child() {
	raw(syscall.SYS_DUP3, childCtl, controlFD, syscall.O_CLOEXEC, 0, 0, 0)
	raw(sysCloseRange, controlFD+1, 0xffffffff, 0, 0, 0, 0)

	for sig := uintptr(1); sig <= 64; sig++ {
		setSignal(sig, sigDfl)
	}

	if !receive(uintptr(unsafe.Pointer(&start)), ReleaseSize) {
		exit(0) // the service gave up, or has ended
	}

	for i := range control.fds {
		slot[i] = uintptr(control.fds[i])
	}

	runProgram()
	writeReport(Ready, 0, 0)

	if !receive(uintptr(unsafe.Pointer(&start)), startSize) {
		exit(0)
	}

	h := (*StartHeader)(unsafe.Pointer(&start))
	if !validStart(h) || !receiveRest(uintptr(unsafe.Pointer(&start))+startSize, uintptr(h.Size)-startSize) {
		writeReport(BadStart, 0, 0)
		exit(1)
	}

	pid, errno := raw(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		writeReport(ExecFailed, 0, errno)
		exit(1)
	}

	if pid == 0 {
		execute(h)
	}

	raw(sysCloseRange, 0, controlFD-1, 0, 0, 0, 0)
	raw(sysCloseRange, controlFD+1, 0xffffffff, 0, 0, 0, 0)
	supervise(pid)
}

//go:nosplit
//go:norace
//go:nocheckptr
func runProgram() {
	n := uintptr((*Header)(unsafe.Pointer(&request)).Ops)
	for i := uintptr(0); i < n; i++ {
		op := opAt(i)

		r, errno := raw(uintptr(op.Nr), arg(op, 0), arg(op, 1), arg(op, 2), arg(op, 3), arg(op, 4), arg(op, 5))
		if errno != 0 && op.Flags&MayFail == 0 {
			writeReport(OpFailed, uint32(i), errno)
			exit(1)
		}

		if op.Out < slots {
			slot[op.Out] = r
		}
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func arg(op *Op, i int) uintptr {
	v := uintptr(op.Args[i&7])
	if op.Kinds>>(2*uint(i))&3 == Slot {
		return slot[v%slots]
	}

	return v
}

// receive fills size bytes and takes the descriptors that come with the first
// of them. It reports false when the other end is closed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func receive(to, size uintptr) bool {
	iov = iovec{base: to, len: uint64(size)}

	control = cmsg{}
	for i := range control.fds {
		control.fds[i] = -1
	}

	msg = msghdr{
		iov: uintptr(unsafe.Pointer(&iov)), iovlen: 1,
		control: uintptr(unsafe.Pointer(&control)), controllen: uint64(unsafe.Sizeof(control)),
	}
	for {
		n, errno := raw(syscall.SYS_RECVMSG, controlFD, uintptr(unsafe.Pointer(&msg)), msgCmsgCloexec, 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}

		if errno != 0 || n == 0 {
			return false
		}

		return receiveRest(to+n, size-n)
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func receiveRest(to, size uintptr) bool {
	for size > 0 {
		n, errno := raw(syscall.SYS_READ, controlFD, to, size, 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}

		if errno != 0 || n == 0 {
			return false
		}

		to += n
		size -= n
	}

	return true
}

//go:nosplit
//go:norace
//go:nocheckptr
func validStart(h *StartHeader) bool {
	words := h.Argc + h.Envc + h.Pathc + 2

	return h.Size <= MaxStart && h.Argc < MaxStart/8 && h.Envc < MaxStart/8 && h.Pathc < MaxStart/8 &&
		h.Size > uint64(startSize)+words*8 && h.Dir < h.Size &&
		control.fds[0] >= 0 && control.fds[1] >= 0 && control.fds[2] >= 0
}

// execute becomes the command; it runs in a child of process 1.
//
//go:nosplit
//go:norace
//go:nocheckptr
func execute(h *StartHeader) {
	base := uintptr(unsafe.Pointer(&start))

	words := uintptr(h.Argc + h.Envc + h.Pathc + 2)
	for i := uintptr(0); i < words; i++ {
		p := word(startSize + i*8)
		if *p != 0 {
			*p += base
		}
	}

	for i := range uintptr(3) {
		raw(syscall.SYS_DUP3, uintptr(control.fds[i]), i, 0, 0, 0, 0)
	}

	raw(syscall.SYS_SETSID, 0, 0, 0, 0, 0, 0)

	_, errno := raw(syscall.SYS_CHDIR, base+uintptr(h.Dir), 0, 0, 0, 0, 0)
	if errno != 0 {
		writeReport(ExecFailed, 1, errno)
		exit(127)
	}

	raw(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&noSignals)), 0, 8, 0, 0)

	argv := base + startSize
	envp := argv + uintptr(h.Argc+1)*8
	paths := startSize + uintptr(h.Argc+h.Envc+2)*8
	refused := syscall.ENOENT

	for i := uintptr(0); i < uintptr(h.Pathc); i++ {
		_, errno = raw(syscall.SYS_EXECVE, *word(paths + i*8), argv, envp, 0, 0, 0)
		if errno == syscall.ENOENT || errno == syscall.ENOTDIR {
			continue
		}

		refused = errno
		if errno != syscall.EACCES {
			break
		}
	}

	writeReport(ExecFailed, 0, refused)
	exit(127)
}

// supervise reaps until the command ended, and reports that. In a process
// namespace of its own it first kills and reaps everything that is left, so
// that the report means: nothing of the command is alive.
//
//go:nosplit
//go:norace
//go:nocheckptr
func supervise(command uintptr) {
	for {
		pid, errno := raw(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), 0, uintptr(unsafe.Pointer(&usage)), 0, 0)
		if errno == syscall.ECHILD {
			exit(0)
		}

		if errno != 0 || pid != command {
			continue
		}

		if (*Header)(unsafe.Pointer(&request)).Flags&OwnPIDNamespace != 0 {
			raw(syscall.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0, 0, 0, 0)

			for errno != syscall.ECHILD {
				_, errno = raw(syscall.SYS_WAIT4, ^uintptr(0), 0, 0, 0, 0, 0)
			}
		}

		writeReport(Exited, 0, 0)

		if (*Header)(unsafe.Pointer(&request)).Flags&OwnPIDNamespace != 0 {
			exit(0)
		}
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func writeReport(kind, index uint32, errno syscall.Errno) {
	report = Report{
		Kind: kind, Index: index, Errno: uint32(errno), Status: status,
		CPU:    uint64(usage.Utime.Sec+usage.Stime.Sec)*1e6 + uint64(usage.Utime.Usec+usage.Stime.Usec),
		MaxRSS: uint64(usage.Maxrss) * 1024,
	}
	raw(syscall.SYS_SENDTO, controlFD, uintptr(unsafe.Pointer(&report)), unsafe.Sizeof(report), syscall.MSG_NOSIGNAL, 0, 0)
}
