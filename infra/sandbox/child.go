//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
	"everloop/infra/sandbox/kernelfile"
)

// killTime is the maximum time until a killed tree has ended. Only processes stuck
// in the kernel (a dead network file system) take longer than milliseconds.
const killTime = 10 * time.Second

// mayDropGroups reports whether commands lose the service's supplementary groups.
// Without privileges the kernel does not allow it: a process that maps a group without
// them must give up setgroups, because a group may also take rights away.
func mayDropGroups(dedicated bool) bool { return dedicated || os.Geteuid() == 0 }

// mapUser maps the one user of the child's user namespace.
func (c *child) mapUser(uid int, dedicated bool) error {
	dir := "/proc/" + strconv.Itoa(c.pid)
	if !mayDropGroups(dedicated) {
		if err := kernelfile.Write(dir+"/setgroups", "deny"); err != nil {
			return fmt.Errorf("sandbox: user namespace: %w", err)
		}
	}

	gid := uid
	if !dedicated {
		gid = os.Getegid()
	}

	if err := kernelfile.Write(dir+"/gid_map", fmt.Sprintf("%d %d 1", guestID, gid)); err != nil {
		return fmt.Errorf("sandbox: user namespace: %w", err)
	}

	if err := kernelfile.Write(dir+"/uid_map", fmt.Sprintf("%d %d 1", guestID, uid)); err != nil {
		return fmt.Errorf("sandbox: user namespace: %w", err)
	}

	return nil
}

// send writes a message whose first part carries descriptors.
func (c *child) send(message []byte, fds ...int) error {
	conn, err := c.ctl.SyscallConn()
	if err != nil {
		return err
	}

	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}

	var (
		sent   int
		failed error
	)

	if err := conn.Write(func(fd uintptr) bool {
		failed = ignoringEINTR(func() (err error) {
			sent, err = unix.SendmsgN(int(fd), message, rights, nil, unix.MSG_NOSIGNAL)
			return err
		})

		return failed != unix.EAGAIN
	}); err != nil {
		return err
	}

	if failed != nil {
		return failed
	}

	if sent < len(message) {
		_, err = c.ctl.Write(message[sent:])
	}

	return err
}

// receive waits for the child's next report; io.EOF means that it died.
func (c *child) receive() (forkserver.Report, error) {
	var b [forkserver.ReportSize]byte
	if _, err := io.ReadFull(c.ctl, b[:]); err != nil {
		if errors.Is(err, unix.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}

		return forkserver.Report{}, err
	}

	return forkserver.DecodeReport(b), nil
}

// kill sends SIGKILL to process 1.
func (c *child) kill() { _ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0) }

// wait waits until process 1, and with a process namespace everything in it,
// has ended.
func (c *child) wait(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		left := max(time.Until(deadline), 0)
		fds := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}

		n, err := unix.Poll(fds, int(left.Milliseconds()))
		if err == unix.EINTR {
			continue
		}

		return n == 1
	}
}

func (c *child) close() {
	_ = c.ctl.Close()
	_ = unix.Close(c.pidfd)
}
