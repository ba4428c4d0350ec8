//go:build linux

package forkserver

import (
	"runtime"
	"syscall"
	"unsafe"
)

// guest runs process 1 of a container. It has no fork server above it, so
// that it takes the program, a length of 8 bytes before it, from the service itself.
// Unlike a forked child it is a complete Go program: blocking calls go through package
// syscall, so that the runtime can schedule other goroutines.
func guest() {
	// Rights, limits and the system call filter belong to this thread, from which
	// the command is forked.
	runtime.LockOSThread()

	if !dialService() || !receiveProgram() {
		return
	}

	for sig := uintptr(1); sig <= 64; sig++ {
		setSignal(sig, sigDfl)
	}

	runProgram()
	writeReport(Ready, 0, 0)

	if !receiveStart() {
		writeReport(BadStart, 0, 0)
		return
	}

	pid, errno := spawn()
	if errno != 0 {
		writeReport(ExecFailed, 0, errno)
		return
	}

	raw(sysCloseRange, 0, controlFD-1, 0, 0, 0, 0)
	raw(sysCloseRange, controlFD+1, 0xffffffff, 0, 0, 0, 0)

	go func() {
		fill(make([]byte, 1)) // the service sends nothing more
		exit(1)               // the service gave up, or has ended: the kernel kills the rest
	}()

	reap(int(pid))
	writeReport(Exited, 0, 0)
	// Wait until the service has read the counters of the control group.
	select {}
}

func dialService() bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil || syscall.Connect(fd, &syscall.SockaddrUnix{Name: GuestControl + "/" + GuestSocket}) != nil {
		return false
	}

	raw(syscall.SYS_DUP3, uintptr(fd), controlFD, syscall.O_CLOEXEC, 0, 0, 0)
	raw(sysCloseRange, controlFD+1, 0xffffffff, 0, 0, 0, 0)

	return true
}

// receiveProgram fills request.
func receiveProgram() bool {
	var size uint64
	if !fill(unsafe.Slice((*byte)(unsafe.Pointer(&size)), unsafe.Sizeof(size))) || size > MaxProgram {
		return false
	}

	return fill(unsafe.Slice((*byte)(unsafe.Pointer(&request)), size)) && relocate(uintptr(size))
}

// receiveStart fills start, and receives the descriptors of the message.
func receiveStart() bool {
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&start)), MaxStart)
	oob := make([]byte, syscall.CmsgSpace(4*MaxFiles))

	n, oobn, _, _, err := syscall.Recvmsg(controlFD, buf[:startSize], oob, msgCmsgCloexec)
	for err == syscall.EINTR {
		n, oobn, _, _, err = syscall.Recvmsg(controlFD, buf[:startSize], oob, msgCmsgCloexec)
	}

	if err != nil || n == 0 || !takeFiles(oob[:oobn]) || !fill(buf[n:startSize]) {
		return false
	}

	h := (*StartHeader)(unsafe.Pointer(&start))

	return validStart(h) && fill(buf[startSize:h.Size])
}

func takeFiles(oob []byte) bool {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return false
	}

	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) > MaxFiles {
		return false
	}

	for i := range control.fds {
		control.fds[i] = -1
		if i < len(fds) {
			control.fds[i] = int32(fds[i])
		}
	}

	return true
}

// fill reads as many bytes as fit. It reports false when the other end is closed.
func fill(b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Read(controlFD, b)
		if err == syscall.EINTR {
			continue
		}

		if err != nil || n == 0 {
			return false
		}

		b = b[n:]
	}

	return true
}

// spawn starts the command.
//
//go:nosplit
//go:norace
//go:nocheckptr
func spawn() (uintptr, syscall.Errno) {
	pid, errno := raw(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		execute((*StartHeader)(unsafe.Pointer(&start)))
	}

	return pid, errno
}

// reap waits for the command's end, then kills and reaps everything that it left.
func reap(command int) {
	for {
		var ended syscall.WaitStatus

		pid, err := syscall.Wait4(-1, &ended, 0, &usage)
		if pid == command {
			status = uint32(ended)
			break
		}

		if err != nil && err != syscall.EINTR {
			exit(1)
		}
	}

	_ = syscall.Kill(-1, syscall.SIGKILL)

	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}
