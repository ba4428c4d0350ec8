package clients

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"everloop/internal/limit"
)

// Connections limits the open connections per client. A client behind a trusted proxy is counted
// by its requests in flight. With the limit zero nothing is counted. It is safe for concurrent
// use.
type Connections struct {
	most    int
	proxies Proxies

	open limit.Keyed[netip.Prefix]
}

// NewConnections returns a limit of most connections per client; 0: unlimited.
func NewConnections(most int, proxies Proxies) *Connections {
	return &Connections{most: most, proxies: proxies}
}

// acquire counts a connection of a client until release; nil: the client is at its limit.
func (c *Connections) acquire(client netip.Prefix) (release func()) {
	release, _ = c.open.Try(limit.Bound[netip.Prefix]{Key: client, Max: c.most})
	return release
}

const (
	// maxRefusals is the maximum number of concurrent refusals; further connections are closed
	// without a response.
	maxRefusals = 32
	// refusalTime is the timeout of one refusal.
	refusalTime = time.Second
)

// Listen returns the listener with the limit applied. A connection above it receives the bytes of
// refusal, a complete response, and is closed.
func (c *Connections) Listen(listener net.Listener, refusal func() []byte) net.Listener {
	return &boundListener{Listener: listener, connections: c, refusal: refusal, refusing: make(chan struct{}, maxRefusals)}
}

// Refusal returns the default response to a connection above the limit.
func Refusal() []byte {
	return []byte("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

type boundListener struct {
	net.Listener
	connections *Connections
	refusal     func() []byte
	refusing    chan struct{}
}

// Accept waits for the next connection below the limit.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		peer := addressOf(conn)
		if l.connections.proxies.Trusts(peer) {
			return &Conn{Conn: conn, connections: l.connections, proxied: true}, nil
		}

		if release := l.connections.acquire(Network(peer)); release != nil {
			return &Conn{Conn: conn, connections: l.connections, release: release}, nil
		}

		l.refuse(conn)
	}
}

func (l *boundListener) refuse(conn net.Conn) {
	select {
	case l.refusing <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}

	go func() {
		defer func() { <-l.refusing }()
		defer conn.Close()

		_ = conn.SetDeadline(time.Now().Add(refusalTime))
		if _, err := conn.Write(l.refusal()); err != nil {
			return
		}
		// Closing with unread bytes resets the connection, and the client may lose the response:
		// so drain the client's data until its end, or the timeout.
		if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
}

// Conn is a counted connection.
type Conn struct {
	net.Conn
	connections *Connections
	proxied     bool

	mu      sync.Mutex
	release func() // ends the count; nil: not counted
	closed  bool
}

// Begin counts a request of a trusted proxy for its client, until Idle or the end of the
// connection; false: the client is at its limit. On a direct connection, which is already
// counted, it does nothing.
func (c *Conn) Begin(client netip.Addr) bool {
	if !c.proxied {
		return true
	}

	c.Idle()
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return true
	}

	c.release = c.connections.acquire(Network(client))

	return c.release != nil
}

// Idle ends the count of Begin.
func (c *Conn) Idle() {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.proxied {
		c.releaseLocked()
	}
}

// Close closes the connection and ends its count.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.releaseLocked()
	c.mu.Unlock()

	return c.Conn.Close()
}

func (c *Conn) releaseLocked() {
	if c.release != nil {
		c.release()
		c.release = nil
	}
}

// addressOf returns the peer's address, or the zero address.
func addressOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}

	return at.Addr().Unmap()
}
