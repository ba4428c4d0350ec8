package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// SOCKS version 5, RFC 1928: without authentication, CONNECT only.
const (
	socksVersion    = 5
	socksConnect    = 1
	socksIPv4       = 1
	socksName       = 3
	socksIPv6       = 4
	socksNoMethod   = 0xff
	socksDone       = 0
	socksRefused    = 2 // refused by the policy
	socksNotReached = 4
	socksNoCommand  = 7
	socksNoAddress  = 8
)

// serveSOCKS serves one SOCKS5 connection until its end.
func (c *Command) serveSOCKS(client net.Conn) {
	_ = client.SetDeadline(time.Now().Add(c.proxy.cfg.HeaderTimeout))

	host, port, code, err := socksRequest(client)
	if err != nil {
		if code != socksDone {
			_ = socksReply(client, code)
		}

		_ = client.Close()

		return
	}

	upstream, err := c.dial(c.ctx, host, port)
	if err != nil {
		code = socksNotReached
		if _, refused := errors.AsType[*refusal](err); refused {
			code = socksRefused
		}

		_ = socksReply(client, code)
		_ = client.Close()

		return
	}

	if err := socksReply(client, socksDone); err != nil {
		_ = upstream.Close()
		_ = client.Close()

		return
	}

	tunnel(idle{client, c.proxy.cfg.Idle}, upstream)
}

var errSOCKS = errors.New("this is not SOCKS5 as it is spoken here")

// socksRequest reads the greeting and the request. On an error, code is the reply to send; 0:
// none.
func socksRequest(client io.ReadWriter) (host string, port uint16, code byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(client, head[:]); err != nil {
		return "", 0, 0, err
	}

	methods := make([]byte, head[1])
	if _, err := io.ReadFull(client, methods); err != nil {
		return "", 0, 0, err
	}

	chosen := byte(socksNoMethod)

	for _, method := range methods {
		if method == 0 {
			chosen = 0
		}
	}

	if _, err := client.Write([]byte{socksVersion, chosen}); err != nil || chosen != 0 {
		return "", 0, 0, errors.Join(err, errSOCKS)
	}

	var request [4]byte // version, command, reserved, address type
	if _, err := io.ReadFull(client, request[:]); err != nil {
		return "", 0, 0, err
	}

	if request[0] != socksVersion || request[1] != socksConnect {
		return "", 0, socksNoCommand, errSOCKS
	}

	return socksAddress(client, request[3])
}

// socksAddress reads the destination of a SOCKS5 request. code is the reply code of an error.
func socksAddress(client io.Reader, kind byte) (host string, port uint16, code byte, err error) {
	size := 0

	switch kind {
	case socksIPv4:
		size = 4
	case socksIPv6:
		size = 16
	case socksName:
		var length [1]byte
		if _, err := io.ReadFull(client, length[:]); err != nil {
			return "", 0, 0, err
		}

		size = int(length[0])
	default:
		return "", 0, socksNoAddress, errSOCKS
	}

	address := make([]byte, size+2)
	if _, err := io.ReadFull(client, address); err != nil {
		return "", 0, 0, err
	}

	port = binary.BigEndian.Uint16(address[size:])

	host = string(address[:size])
	if kind != socksName {
		addr, _ := netip.AddrFromSlice(address[:size])
		host = addr.String()
	}

	if host == "" || port == 0 {
		return "", 0, socksNoAddress, errSOCKS
	}

	return host, port, 0, nil
}

func socksReply(client io.Writer, code byte) error {
	_, err := client.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
