package sio

import (
	"io"
	"net"
	"sync"
)

// corkSize is the number of bytes buffered before a write.
const corkSize = 32 << 10

// handedConn is a TCP connection taken over from Fiber: reads return the bytes that Fiber had
// already read first. Between cork and uncork its writes are buffered.
type handedConn struct {
	net.Conn
	reader io.Reader

	requestID string // the app's id of the request; empty: none

	mu     sync.Mutex
	corked bool
	buffer []byte
}

func (c *handedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

func (c *handedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if !c.corked {
		return c.Conn.Write(p)
	}

	if len(c.buffer)+len(p) > corkSize {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}

	if len(p) > corkSize {
		return c.Conn.Write(p)
	}

	c.buffer = append(c.buffer, p...)

	return len(p), nil
}

func (c *handedConn) cork() {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.corked = true
}

func (c *handedConn) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.corked = false

	return c.flush()
}

func (c *handedConn) flush() error {
	if len(c.buffer) == 0 {
		return nil
	}

	_, err := c.Conn.Write(c.buffer)
	if c.buffer = c.buffer[:0]; cap(c.buffer) > corkSize/4 {
		c.buffer = nil // frees the memory of idle connections
	}

	return err
}

// handoff is the listener of the HTTP server after Fiber.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give passes on a connection, or closes it when the server has stopped.
func (h *handoff) give(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.done:
		_ = conn.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (*handoff) Addr() net.Addr { return &net.TCPAddr{} }
