package testkit

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// FaultProxy is a TCP proxy in front of an engine that a test can pause, slow down, reset and
// stop. It preserves the order of bytes: delayed data arrives in order afterwards.
type FaultProxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change of the following fields
	paused  bool
	down    bool
	delay   time.Duration
	conns   map[net.Conn]struct{}
	closed  bool
	running sync.WaitGroup
}

// Proxy starts a proxy on a free loopback port. target is the host:port of the
// engine, or a URL that names it. The proxy ends with the test.
func Proxy(t testing.TB, target string) *FaultProxy {
	t.Helper()

	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}

	p := &FaultProxy{listener: listener, target: target, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)

	return p
}

// Addr returns the proxy's host:port.
func (p *FaultProxy) Addr() string { return p.listener.Addr().String() }

// URL returns a URL of the engine with the proxy's address.
func (p *FaultProxy) URL(t testing.TB, engine string) string {
	t.Helper()

	u, err := url.Parse(engine)
	if err != nil {
		t.Fatalf("the engine's address is not a URL: %v", err)
	}

	u.Host = p.Addr()

	return u.String()
}

// Pause stops all bytes in both directions until Resume, like SIGSTOP of the engine: connections
// stay open, and new ones are accepted.
func (p *FaultProxy) Pause() { p.change(func() { p.paused = true }) }

// Resume ends Pause.
func (p *FaultProxy) Resume() { p.change(func() { p.paused = false }) }

// Delay delays each read of either direction by d; 0 ends it.
func (p *FaultProxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// Reset resets all connections; bytes in flight are lost.
func (p *FaultProxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()

	for conn := range p.conns {
		reset(conn)
	}
}

// Down resets all connections, and each new one, until Up.
func (p *FaultProxy) Down() {
	p.change(func() { p.down = true })
	p.Reset()
}

// Up ends Down.
func (p *FaultProxy) Up() { p.change(func() { p.down = false }) }

func (p *FaultProxy) change(set func()) {
	p.mu.Lock()
	defer p.mu.Unlock()

	set()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *FaultProxy) close() {
	p.listener.Close()
	p.change(func() { p.closed = true })
	p.Reset()
	p.running.Wait()
}

func (p *FaultProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}

		if !p.keep(client) {
			continue
		}

		p.running.Go(func() { p.serve(client) })
	}
}

// keep registers a connection; while the proxy is stopped it resets the connection instead.
func (p *FaultProxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.down || p.closed {
		reset(conn)
		return false
	}

	p.conns[conn] = struct{}{}

	return true
}

func (p *FaultProxy) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()

	delete(p.conns, conn)
	conn.Close()
}

func (p *FaultProxy) serve(client net.Conn) {
	defer p.drop(client)

	engine, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(engine) {
		return
	}
	defer p.drop(engine)

	var both sync.WaitGroup
	both.Go(func() { p.pipe(engine, client) })
	both.Go(func() { p.pipe(client, engine) })
	both.Wait()
}

// pipe copies until the end of from, and forwards the end.
func (p *FaultProxy) pipe(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.hold() {
			if _, err := to.Write(buffer[:n]); err != nil {
				reset(from)
				return
			}
		}

		if errors.Is(err, io.EOF) && p.hold() {
			if half, ok := to.(*net.TCPConn); ok && half.CloseWrite() == nil {
				return
			}
		}

		if err != nil {
			reset(to)
			return
		}
	}
}

// hold waits for the delay and the pause. It returns false when the proxy was closed.
func (p *FaultProxy) hold() bool {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()

	if delay > 0 {
		time.Sleep(delay)
	}

	for {
		p.mu.Lock()
		paused, closed, changed := p.paused, p.closed, p.changed
		p.mu.Unlock()

		if closed || !paused {
			return !closed
		}

		<-changed
	}
}

// reset closes a connection with a TCP reset, so that the peer sees an error instead of EOF.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}

	conn.Close()
}
