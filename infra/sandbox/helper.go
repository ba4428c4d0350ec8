//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
)

// helper is the service's end of the fork server: the program's own binary,
// executed again under another name. It is started when first needed and
// again after it died.
type helper struct {
	mu     sync.Mutex
	socket int // -1 when not running
	closed bool
	adopt  func(pid int) error // called with each new server
}

func newHelper(adopt func(pid int) error) *helper { return &helper{socket: -1, adopt: adopt} }

var errClosed = errors.New("sandbox: closed")

// start runs the fork server. It gets an empty environment: what it does not have,
// no command can find in its memory.
func (h *helper) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("sandbox: fork server: %w", err)
	}

	theirs := os.NewFile(uintptr(pair[1]), "fork server")
	defer func() { _ = theirs.Close() }()
	// One program and its answer at a time; the default buffer may be smaller.
	_ = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 2*forkserver.MaxProgram)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{forkserver.Arg0}
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}

	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of the terminal's signals

	if err := cmd.Start(); err != nil {
		_ = unix.Close(pair[0])
		return fmt.Errorf("sandbox: fork server: %w", err)
	}
	go func() { _ = cmd.Wait() }()

	if err := h.adopt(cmd.Process.Pid); err != nil {
		_ = unix.Close(pair[0]) // the server ends
		return fmt.Errorf("sandbox: fork server: %w", err)
	}

	h.socket = pair[0]

	return nil
}

// child is a process that the fork server made, as yet waiting for its release.
type child struct {
	pid   int
	pidfd int
	ctl   *os.File
}

// fork has the server make a child for an encoded program.
func (h *helper) fork(program []byte) (*child, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	defer func() { _ = unix.Close(pair[1]) }()

	pid, pidfd, err := h.request(program, pair[1])
	if err != nil {
		_ = unix.Close(pair[0])
		return nil, err
	}

	if err := unix.SetNonblock(pair[0], true); err != nil {
		_ = unix.Close(pair[0])
		_ = unix.Close(pidfd)

		return nil, fmt.Errorf("sandbox: %w", err)
	}

	return &child{pid: pid, pidfd: pidfd, ctl: os.NewFile(uintptr(pair[0]), "sandbox")}, nil
}

func (h *helper) request(program []byte, ctl int) (pid, pidfd int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()

	for range 2 { // a server that died is started again, once
		if h.closed {
			return 0, -1, errClosed
		}

		if h.socket < 0 {
			if err := h.start(); err != nil {
				return 0, -1, err
			}
		}

		if pid, pidfd, err = h.exchange(program, ctl); !errors.Is(err, errServerGone) {
			return pid, pidfd, err
		}

		_ = unix.Close(h.socket)
		h.socket = -1
	}

	return 0, -1, err
}

var errServerGone = errors.New("sandbox: the fork server ended; is forkserver's package linked into this binary?")

func (h *helper) exchange(program []byte, ctl int) (int, int, error) {
	if err := ignoringEINTR(func() error {
		return unix.Sendmsg(h.socket, program, unix.UnixRights(ctl), nil, unix.MSG_NOSIGNAL)
	}); err != nil {
		return 0, -1, fmt.Errorf("%w (%w)", errServerGone, err)
	}

	var answer [8]byte

	oob := make([]byte, unix.CmsgSpace(4))

	var n, oobn int
	if err := ignoringEINTR(func() (err error) {
		n, oobn, _, _, err = unix.Recvmsg(h.socket, answer[:], oob, unix.MSG_CMSG_CLOEXEC)
		return err
	}); err != nil || n != len(answer) {
		return 0, -1, errServerGone
	}

	reply := forkserver.DecodeCloneReply(answer)
	if reply.Errno != 0 {
		return 0, -1, fmt.Errorf("sandbox: new process with its own namespaces: %w", syscall.Errno(reply.Errno))
	}

	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return 0, -1, errServerGone
	}

	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, -1, errServerGone
	}

	return int(reply.PID), fds[0], nil
}

// close ends the fork server, and with it every sandbox.
func (h *helper) close() {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.closed = true
	if h.socket >= 0 {
		_ = unix.Close(h.socket)
		h.socket = -1
	}
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
