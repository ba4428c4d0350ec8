//go:build linux

package forkserver

import (
	"runtime"
	"syscall"
	"unsafe"
)

const controlFD = ControlFD

// Buffers that parent and child share by the fork. They are static, so that
// the child never allocates, and 8-byte aligned.
var (
	request  [MaxProgram / 8]uint64
	start    [MaxStart / 8]uint64
	slot     [slots]uintptr
	pidfd    int32
	childCtl uintptr
)

func init() {
	switch name := invokedAs(); name {
	case Arg0 + "\x00":
		serve()
		exit(0)
	case GuestPath + "\x00":
		guest()
		exit(1)
	}
}

// invokedAs returns the command line, up to the length of a name of this package. Package
// os, which provides it, would add initialisation that this package avoids.
func invokedAs() string {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}

	var b [len(Arg0) + len(GuestPath)]byte

	n, _ := syscall.Read(fd, b[:])
	_ = syscall.Close(fd)

	return string(b[:max(n, 0)])
}

// serve forks a child for every program until the control socket is closed.
func serve() {
	// Children are signalled at this thread's death, not at the process's.
	runtime.LockOSThread()
	raw(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0)
	// Ignoring SIGCHLD has the kernel reap the children.
	setSignal(uintptr(syscall.SIGCHLD), sigIgn)

	oob := make([]byte, syscall.CmsgSpace(4))

	buf := unsafe.Slice((*byte)(unsafe.Pointer(&request)), MaxProgram)
	for {
		n, oobn, _, _, err := syscall.Recvmsg(controlFD, buf, oob, msgCmsgCloexec)
		if err == syscall.EINTR {
			continue
		}

		if err != nil || n == 0 {
			killChildren()
			return
		}

		ctl := receivedFD(oob[:oobn])
		reply := CloneReply{Errno: int32(syscall.EINVAL)}

		var rights []byte

		if ctl >= 0 && relocate(uintptr(n)) {
			childCtl = uintptr(ctl)
			pid, errno := fork()

			reply = CloneReply{PID: int32(pid), Errno: int32(errno)}
			if errno == 0 {
				rights = syscall.UnixRights(int(pidfd))
			}
		}

		_ = syscall.Sendmsg(controlFD, unsafe.Slice((*byte)(unsafe.Pointer(&reply)), unsafe.Sizeof(reply)), rights, nil, 0)
		if rights != nil {
			_ = syscall.Close(int(pidfd))
		}

		if ctl >= 0 {
			_ = syscall.Close(ctl)
		}
	}
}

func receivedFD(oob []byte) int {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return -1
	}

	fds, err := syscall.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1
	}

	return fds[0]
}

// relocate turns the offsets of a received program into addresses.
//
//go:nocheckptr
func relocate(size uintptr) bool {
	base := uintptr(unsafe.Pointer(&request))

	h := (*Header)(unsafe.Pointer(&request))
	if size < headerSize || h.Ops > MaxProgram/uint64(opSize) || h.Relocations > MaxProgram/uint64(relocSize) {
		return false
	}

	relocations := headerSize + uintptr(h.Ops)*opSize

	data := relocations + uintptr(h.Relocations)*relocSize
	if data > size {
		return false
	}

	for i := uintptr(0); i < uintptr(h.Ops); i++ {
		op := opAt(i)
		for a := range op.Args {
			switch op.Kinds >> (2 * a) & 3 {
			case Pointer:
				if op.Args[a] >= uint64(size-data) {
					return false
				}

				op.Args[a] += uint64(base + data)
			case Slot:
				if op.Args[a] >= slots {
					return false
				}
			}
		}

		if op.Out != NoSlot && op.Out >= slots {
			return false
		}
	}

	for i := uintptr(0); i < uintptr(h.Relocations); i++ {
		r := (*Relocation)(unsafe.Add(unsafe.Pointer(&request), relocations+i*relocSize))
		if uintptr(r.At)+8 > size-data || uintptr(r.Target) >= size-data {
			return false
		}

		*(*uintptr)(unsafe.Add(unsafe.Pointer(&request), data+uintptr(r.At))) = base + data + uintptr(r.Target)
	}

	return true
}
