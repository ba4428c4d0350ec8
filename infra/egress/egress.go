// Package egress connects sandboxed commands to the network: a proxy for HTTP, CONNECT and SOCKS5
// that resolves names itself, checks each connection against the policy of its session and the
// address guard, and limits and records it.
//
// The package depends on policies and listeners. It must not depend on sessions, tools or the
// sandbox.
package egress

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"everloop/domain"
	"everloop/infra/netguard"
)

// Defaults of a Config.
const (
	DefaultPerCommand    = 128
	DefaultTotal         = 2048
	DefaultIdle          = 5 * time.Minute
	DefaultHeaderTimeout = 30 * time.Second
	DefaultDialTimeout   = 15 * time.Second
)

const maxHeader = 256 << 10 // maximum header of a request or response, in bytes

// Config of a Proxy. Zero fields select the defaults.
type Config struct {
	Guard    *netguard.Guard // decides which addresses are allowed
	Resolver *net.Resolver   // nil: the system's

	PerCommand    int           // maximum concurrent connections of one command; further ones wait
	Total         int           // maximum concurrent connections; further ones receive 503
	Idle          time.Duration // idle timeout of a connection
	HeaderTimeout time.Duration // timeout for the header of a command's request
	DialTimeout   time.Duration // timeout of resolving and connecting
}

// Proxy connects the commands of all sessions to the network. It is safe for concurrent use.
type Proxy struct {
	cfg   Config
	slots chan struct{} // semaphore of connections
}

// New returns a new proxy.
func New(cfg Config) *Proxy {
	cfg.PerCommand = cmp.Or(cfg.PerCommand, DefaultPerCommand)
	cfg.Total = cmp.Or(cfg.Total, DefaultTotal)
	cfg.Idle = cmp.Or(cfg.Idle, DefaultIdle)
	cfg.HeaderTimeout = cmp.Or(cfg.HeaderTimeout, DefaultHeaderTimeout)
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, DefaultDialTimeout)

	return &Proxy{cfg: cfg, slots: make(chan struct{}, cfg.Total)}
}

// Policy returns the current network policy of a command's session.
type Policy func(ctx context.Context) (domain.NetworkPolicy, error)

// Command is the proxy of one command.
type Command struct {
	proxy     *Proxy
	rules     rules
	store     records
	transport *http.Transport
	server    *http.Server
	requests  handover // HTTP connections

	places chan struct{} // semaphore of the command's connections

	ctx    context.Context // cancelled at the end of the command
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	open   map[*tracked]struct{}
	busy   sync.WaitGroup
}

// Open returns a command's proxy. It reads the policy with the first connection and then every
// second, also for open connections. Close must be called.
func (p *Proxy) Open(policy Policy) *Command {
	c := &Command{
		proxy: p, rules: rules{read: policy}, requests: newHandover(),
		places: make(chan struct{}, p.cfg.PerCommand), open: map[*tracked]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.transport = &http.Transport{
		DialContext:            c.dialAddress,
		DisableCompression:     true,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        p.cfg.HeaderTimeout,
		ResponseHeaderTimeout:  p.cfg.Idle,
		MaxResponseHeaderBytes: maxHeader,
	}
	c.server = &http.Server{
		Handler:           http.HandlerFunc(c.serveHTTP),
		BaseContext:       func(net.Listener) context.Context { return c.ctx },
		ReadHeaderTimeout: p.cfg.HeaderTimeout,
		IdleTimeout:       p.cfg.HeaderTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          noLog, // invalid requests of a command are not errors of the service
	}

	return c
}

// Serve accepts the command's connections from a listener, until Close, which closes the
// listener. It does not block.
func (c *Command) Serve(listener net.Listener) {
	if !c.enter() {
		_ = listener.Close()
		return
	}
	go func() {
		defer c.busy.Done()

		c.accept(listener)
	}()
	go func() { _ = c.server.Serve(c.requests) }()
	go c.watch()

	context.AfterFunc(c.ctx, func() { _ = listener.Close() })
}

// acceptPause is the delay after a failed accept, for example without free descriptors.
const acceptPause = 100 * time.Millisecond

// accept accepts connections until the listener is closed. Connections above the limit wait in
// the kernel's queue.
func (c *Command) accept(listener net.Listener) {
	for {
		select {
		case c.places <- struct{}{}:
		case <-c.ctx.Done():
			return
		}

		conn, err := listener.Accept()
		if err == nil {
			c.welcome(conn)
			continue
		}

		<-c.places

		select {
		case <-time.After(acceptPause):
		case <-c.ctx.Done():
			return
		}
	}
}

// welcome serves a connection that has a slot.
func (c *Command) welcome(conn net.Conn) {
	client, ok := c.admit(conn)
	if !ok {
		return
	}

	if !c.enter() {
		_ = client.Close()
		return
	}
	go func() {
		defer c.busy.Done()

		c.greet(client)
	}()
}

const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"Too many connections of commands are open; try again later.\n"

// admit counts a connection against the total limit, or rejects it.
func (c *Command) admit(conn net.Conn) (net.Conn, bool) {
	select {
	case c.proxy.slots <- struct{}{}:
	default:
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte(tooMany))
		_ = conn.Close()

		<-c.places

		return nil, false
	}

	return c.track(conn, func() {
		<-c.proxy.slots
		<-c.places
	}), true
}

// enter counts a goroutine, unless the command has ended.
func (c *Command) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	if !c.closed {
		c.busy.Add(1)
	}

	return !c.closed
}

// Connections returns the connections so far, summed up.
func (c *Command) Connections() []domain.Connection { return c.store.list() }

// Close closes all connections and returns their records. A nil Command has none.
func (c *Command) Close() []domain.Connection {
	if c == nil {
		return nil
	}

	c.mu.Lock()
	c.closed = true

	open := make([]net.Conn, 0, len(c.open))
	for conn := range c.open {
		open = append(open, conn)
	}
	c.mu.Unlock()
	c.cancel()
	_ = c.requests.Close()

	_ = c.server.Close()
	for _, conn := range open {
		_ = conn.Close()
	}

	c.transport.CloseIdleConnections()
	c.busy.Wait()

	return c.Connections()
}
