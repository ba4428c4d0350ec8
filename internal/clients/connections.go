package clients

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"everloop/internal/limit"
)

// Connections bounds the connections that are open at once for one client. A client
// behind a trusted proxy is counted by its requests under way. The zero limit counts
// nothing. It is safe for concurrent use.
type Connections struct {
	most    int
	proxies Proxies

	open limit.Keyed[netip.Prefix]
}

// NewConnections returns a new bound of most connections for each client; 0: no bound.
func NewConnections(most int, proxies Proxies) *Connections {
	return &Connections{most: most, proxies: proxies}
}

// acquire counts a connection of a client, until release; nil: the client has too many.
func (c *Connections) acquire(client netip.Prefix) (release func()) {
	release, _ = c.open.Try(limit.Bound[netip.Prefix]{Key: client, Max: c.most})
	return release
}

const (
	// maxRefusals bounds the connections that are being refused at one moment; more
	// are closed without an answer.
	maxRefusals = 32
	// refusalTime bounds one refusal.
	refusalTime = time.Second
)

// Listen returns the listener with the bound applied. A connection beyond it gets the
// bytes of refusal, a whole answer, and is closed.
func (c *Connections) Listen(listener net.Listener, refusal func() []byte) net.Listener {
	return &boundListener{Listener: listener, connections: c, refusal: refusal, refusing: make(chan struct{}, maxRefusals)}
}

// Refusal returns the answer to a connection beyond the bound, of services that say no more.
func Refusal() []byte {
	return []byte("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

type boundListener struct {
	net.Listener
	connections *Connections
	refusal     func() []byte
	refusing    chan struct{}
}

// Accept waits for the next connection within the bound.
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
		// A close with unread bytes resets the connection, and the client may lose the
		// answer: what it sends is read until it ends, within the time.
		if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
}

// Conn is a connection within the bound.
type Conn struct {
	net.Conn
	connections *Connections
	proxied     bool

	mu      sync.Mutex
	release func() // ends the count; nil: nothing is counted
	closed  bool
}

// Begin counts a request of a trusted proxy for the client that it is from, until Idle
// or the end of the connection; false: the client has too many. On a connection of a
// client itself, which is counted already, it does nothing.
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

// Idle ends what Begin counted.
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

// addressOf returns the peer's address, the zero one where it has none.
func addressOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}

	return at.Addr().Unmap()
}
