package egress

import (
	"bufio"
	"io"
	"log" //nolint:depguard // the type that net/http and the SOCKS library take
	"net"
	"sync"
	"time"
)

var noLog = log.New(io.Discard, "", 0)

// tracked is a connection that is closed with its command. Close is idempotent.
type tracked struct {
	net.Conn
	host    string // of a connection to the network; empty: a connection of the command
	port    uint16
	closing func() error
}

// track registers a connection until it is closed; ended is called then. If the command has
// ended, the connection is closed immediately.
func (c *Command) track(conn net.Conn, ended func()) net.Conn {
	return c.keep(&tracked{Conn: conn}, ended)
}

func (c *Command) keep(t *tracked, ended func()) net.Conn {
	conn := t.Conn
	t.closing = sync.OnceValue(func() error {
		c.mu.Lock()
		delete(c.open, t)
		c.mu.Unlock()
		ended()

		return conn.Close()
	})

	c.mu.Lock()

	closed := c.closed
	if !closed {
		c.open[t] = struct{}{}
	}
	c.mu.Unlock()

	if closed {
		_ = t.Close()
	}

	return t
}

func (t *tracked) Close() error { return t.closing() }

// CloseWrite sends a FIN.
func (t *tracked) CloseWrite() error { return closeWrite(t.Conn) }

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}

	return conn.Close()
}

// idle is a connection that fails after a period without data in either direction.
type idle struct {
	net.Conn
	limit time.Duration
}

func (i idle) Read(p []byte) (int, error) {
	_ = i.SetDeadline(time.Now().Add(i.limit))
	return i.Conn.Read(p)
}

func (i idle) Write(p []byte) (int, error) {
	_ = i.SetDeadline(time.Now().Add(i.limit))
	return i.Conn.Write(p)
}

func (i idle) CloseWrite() error { return closeWrite(i.Conn) }

// peeked is a connection with data that was read ahead.
type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

func (p peeked) CloseWrite() error { return closeWrite(p.Conn) }

// metered counts the bytes of a connection.
type metered struct {
	net.Conn
	record *record
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.record.received.Add(int64(n))

	return n, err
}

func (m metered) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	m.record.sent.Add(int64(n))

	return n, err
}

func (m metered) CloseWrite() error { return closeWrite(m.Conn) }

// tunnel copies bytes in both directions until both have ended or either failed, and closes both
// connections.
func tunnel(client, upstream net.Conn) {
	var copying sync.WaitGroup

	carry := func(to, from net.Conn) {
		_, err := io.Copy(onlyWriter{to}, onlyReader{from})
		if err != nil || closeWrite(to) != nil {
			_ = client.Close()
			_ = upstream.Close()
		}
	}

	copying.Go(func() { carry(upstream, client) })
	copying.Go(func() { carry(client, upstream) })
	copying.Wait()

	_ = client.Close()
	_ = upstream.Close()
}

// Hide ReadFrom and WriteTo, so that copies use the wrappers instead of splice.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// handover is a listener of connections that were accepted by another one.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	once   *sync.Once
}

func newHandover() handover {
	return handover{conns: make(chan net.Conn), closed: make(chan struct{}), once: &sync.Once{}}
}

// put passes a connection to Accept, or closes it when the listener is closed.
func (h handover) put(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (h handover) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h handover) Addr() net.Addr { return &net.TCPAddr{} }
