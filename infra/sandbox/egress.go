//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
)

// Where a command finds the proxy, in its own network.
const (
	// ProxyURL is for programs that read no variables.
	ProxyURL = "http://127.0.0.1:3128"

	proxyPort    = 3128
	proxyBacklog = 1024 // connections that wait to be accepted
)

// proxyFD is the number under which the listening socket is passed on: the message
// that carries it is laid out before the socket is created.
const proxyFD = 64

// proxyVariables are those by which programs find the proxy. All of them name it as
// one for HTTP: some programs refuse to start when they read of SOCKS.
func proxyVariables() map[string]string {
	const at = ProxyURL

	const direct = "localhost,127.0.0.1,::1"

	return map[string]string{
		"http_proxy": at, "https_proxy": at, "all_proxy": at, "no_proxy": direct,
		"HTTP_PROXY": at, "HTTPS_PROXY": at, "ALL_PROXY": at, "NO_PROXY": direct,
		"NODE_USE_ENV_PROXY": "1",
	}
}

// Networked reports whether commands can have a proxy: only in a network of their own.
func (s *Sandbox) Networked() bool { return s.level == Namespaced }

// proxy listens in the sandbox's network and passes the socket to the service, which
// accepts there: nothing in the sandbox relays, and no file leads out. The socket is
// closed here before a command starts.
func (p *program) proxy() {
	address := object(p, struct {
		family uint16
		port   [2]byte
		addr   [4]byte
		_      [8]byte
	}{unix.AF_INET, [2]byte{proxyPort >> 8, proxyPort & 0xff}, [4]byte{127, 0, 0, 1}, [8]byte{}})
	fd := p.open("open the proxy's socket", unix.SYS_SOCKET, num(unix.AF_INET), num(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), none)
	p.call("bind the proxy's socket", unix.SYS_BIND, fd, address, num(unix.SizeofSockaddrInet4))
	p.call("listen for the proxy", unix.SYS_LISTEN, fd, num(proxyBacklog))
	p.call("number the proxy's socket", unix.SYS_DUP3, fd, num(proxyFD), num(unix.O_CLOEXEC))

	report := object(p, forkserver.Report{Kind: forkserver.Listening})
	iov := object(p, struct{ base, len uint64 }{0, uint64(forkserver.ReportSize)})
	p.pointerAt(iov, 0, report)
	rights := object(p, struct {
		len         uint64
		level, kind int32
		fd          int32
		_           int32
	}{uint64(unix.CmsgLen(4)), unix.SOL_SOCKET, unix.SCM_RIGHTS, proxyFD, 0})
	message := object(p, struct{ name, namelen, iov, iovlen, control, controllen, flags uint64 }{
		iovlen: 1, controllen: uint64(unix.CmsgSpace(4)),
	})
	p.pointerAt(message, 16, iov)
	p.pointerAt(message, 32, rights)
	p.call("pass the proxy's socket", unix.SYS_SENDMSG, num(forkserver.ControlFD), message, num(unix.MSG_NOSIGNAL))

	p.call("close the proxy's socket", unix.SYS_CLOSE, num(proxyFD))
	p.call("close the proxy's socket", unix.SYS_CLOSE, fd)
	p.slots--
}

// receiveListener is receive for the first report of a sandbox with a proxy, which
// comes with the listening socket unless the set-up has failed before.
func (c *child) receiveListener() (report forkserver.Report, listener net.Listener, err error) {
	conn, err := c.ctl.SyscallConn()
	if err != nil {
		return report, nil, err
	}

	var b [forkserver.ReportSize]byte

	oob := make([]byte, unix.CmsgSpace(4))

	var (
		n, oobn int
		failed  error
	)

	if err := conn.Read(func(fd uintptr) bool {
		failed = ignoringEINTR(func() (err error) {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), b[:], oob, unix.MSG_CMSG_CLOEXEC)
			return err
		})

		return failed != unix.EAGAIN
	}); err != nil {
		return report, nil, err
	}

	file, err := receivedFile(oob[:oobn])
	if err != nil {
		return report, nil, err
	}

	if file != nil {
		defer func() { _ = file.Close() }()
	}

	if failed != nil || n != len(b) {
		return report, nil, fmt.Errorf("report of %d bytes: %w", n, errors.Join(failed, unix.EPIPE))
	}

	report = forkserver.DecodeReport(b)
	if report.Kind != forkserver.Listening {
		return report, nil, nil
	}

	if file == nil {
		return report, nil, errors.New("the proxy's socket is missing")
	}

	if listener, err = net.FileListener(file); err != nil {
		return report, nil, err
	}

	report, err = c.receive()

	return report, listener, err
}

// receivedFile returns the descriptor that came with a message, nil for none.
func receivedFile(oob []byte) (*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}

	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(err, unix.EBADMSG)
	}

	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(err, unix.EBADMSG)
	}

	return os.NewFile(uintptr(fds[0]), "proxy"), nil
}

// ready waits until a released sandbox has run its set-up.
func (in *instance) ready() (report forkserver.Report, err error) {
	if !in.shape.proxy {
		return in.receive()
	}

	report, in.listener, err = in.receiveListener()

	return report, err
}
