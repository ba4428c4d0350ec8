package sio

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// closeGrace is how long a connection that this side closes can take to read its buffered
// packets.
const closeGrace = 2 * time.Second

// Conn is one authenticated client. Its methods are safe for concurrent use and do not block.
type Conn struct {
	id       string
	identity any
	session  *session
	server   *Server
	ctx      context.Context
	cancel   context.CancelFunc
	inbox    *inbox
	outbox   outbox
	value    atomic.Value

	mu      sync.Mutex
	started bool
	reason  string
}

func newConn(s *session, id string, identity any) *Conn {
	c := &Conn{id: id, identity: identity, session: s, server: s.server}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.inbox = newInbox(c.ctx.Done())
	c.outbox.engine = s.engine
	c.outbox.limit = s.server.opts.BufferLimit

	return c
}

// ID returns the connection's public name, the client's socket.id.
func (c *Conn) ID() string { return c.id }

// Identity returns the result of [Authenticate].
func (c *Conn) Identity() any { return c.identity }

// RemoteAddr returns the address, host:port, of the peer.
func (c *Conn) RemoteAddr() string { return c.session.engine.RemoteAddress() }

// Context returns a context that ends when the connection is lost.
func (c *Conn) Context() context.Context { return c.ctx }

// SetValue stores one value of the handler with the connection; all values of a connection must
// have the same type.
func (c *Conn) SetValue(v any) { c.value.Store(v) }

// Value returns the value that SetValue stored, or nil.
func (c *Conn) Value() any { return c.value.Load() }

// Buffered returns the approximate number of bytes that wait for the client.
func (c *Conn) Buffered() int { return c.outbox.bytes() }

// OnDrained sets a function that is called, in a new goroutine, when Emit has returned false
// and the buffer has since fallen below half of its limit. Call it from Connected.
func (c *Conn) OnDrained(fn func()) {
	c.outbox.mu.Lock()
	defer c.outbox.mu.Unlock()

	c.outbox.onDrain = func() {
		c.server.handlers.Go(func() {
			defer c.server.recovered("drained")

			fn()
		})
	}
}

// Emit queues an event. data is one valid JSON value, shared by all connections that it is sent
// to; it must not change afterwards. The events of one connection arrive in the order of the
// calls. Emit returns false when the event was not queued: the connection's buffer is over its
// limit, or the connection is closed.
func (c *Conn) Emit(event string, data json.RawMessage) bool {
	ok := c.outbox.push(&frame{head: c.server.eventHead(event), body: data, tail: closeBracket}, 0)
	if ok {
		c.server.stats.eventsOut.Add(1)
	} else if c.ctx.Err() == nil {
		c.server.stats.overflows.Add(1)
	}

	return ok
}

// Close disconnects the client, which reports "io server disconnect" and does not reconnect,
// and closes the connection.
func (c *Conn) Close() {
	c.session.mu.Lock()
	if c.session.reason == "" {
		c.session.reason = "server namespace disconnect"
	}
	c.session.mu.Unlock()
	c.outbox.push(&frame{head: []byte{typeDisconnect}}, ackReserve)
	// Queued packets are sent first; a client that does not read is cut off.
	time.AfterFunc(closeGrace, c.session.abort)
	c.outbox.whenEmpty(c.session.abort)
}

var closeBracket = []byte{']'}

// eventHead returns `2["name",`. It is cached by name: servers emit few different events.
func (s *Server) eventHead(event string) []byte {
	if head, ok := s.heads.Load(event); ok {
		return head.([]byte)
	}

	name, _ := json.Marshal(event)
	head := append([]byte{typeEvent, '['}, name...)
	head = append(head, ',')
	s.heads.Store(event, head)

	return head
}

// start runs the dispatcher.
func (c *Conn) start() {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.started {
		return
	}

	c.started = true
	c.server.stats.joined.Add(1)
	c.server.handlers.Go(c.dispatch)
}

// onClosed is called when the session has ended.
func (c *Conn) onClosed(reason string) {
	c.mu.Lock()
	c.reason = reason
	c.mu.Unlock()
	c.outbox.closed.Store(true)
	c.cancel()
}

// dispatch calls the handler, one call at a time.
func (c *Conn) dispatch() {
	defer c.server.stats.joined.Add(-1)

	h := c.server.opts.Handler
	c.guard("Connected", func() { h.Connected(c) })

	for {
		ev, ok := c.inbox.take()
		if ok {
			c.handle(ev)
			continue
		}

		select {
		case <-c.inbox.ready:
			continue
		case <-c.ctx.Done():
		}
		// Events received before the loss are handled before the loss is reported.
		if ev, ok = c.inbox.take(); ok {
			c.handle(ev)
			continue
		}

		c.mu.Lock()
		reason := c.reason
		c.mu.Unlock()
		c.guard("Disconnected", func() { h.Disconnected(c, reason) })

		return
	}
}

func (c *Conn) handle(ev event) {
	c.server.stats.eventsIn.Add(1)

	var ack func(any)
	if ev.hasID {
		ack = c.acknowledger(ev.id)
	}

	ok := c.guard(ev.name, func() {
		if ev.fault != nil {
			c.server.stats.malformed.Add(1)
			c.server.opts.Handler.Malformed(c, ev.name, *ev.fault, ack)

			return
		}

		c.server.opts.Handler.Event(c, ev.name, ev.payload, ack)
	})
	if !ok && ack != nil {
		ack(internalError) // without an answer the client would wait indefinitely
	}
}

// internalError is the answer to an event whose handler panicked or whose answer is not valid
// JSON.
var internalError = json.RawMessage(
	`{"ok":false,"error":{"code":"internal_error","message":"internal error","retryable":true}}`)

func (c *Conn) acknowledger(id uint64) func(any) {
	var once sync.Once
	return func(v any) { once.Do(func() { c.acknowledge(id, v) }) }
}

func (c *Conn) acknowledge(id uint64, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		c.server.opts.Log.Error("failed to encode an acknowledgement as JSON", slog.String("error", err.Error()))

		body = internalError
	}

	head := append(strconv.AppendUint([]byte{typeAck}, id, 10), '[')
	if !c.outbox.push(&frame{head: head, body: body, tail: closeBracket}, ackReserve) && c.ctx.Err() == nil {
		// An answer is never dropped silently: a client that sends requests without reading the
		// answers loses its connection instead.
		c.session.close("acknowledgements not read")
	}
}

// guard calls fn and reports whether it returned without a panic.
func (c *Conn) guard(what string, fn func()) (ok bool) {
	defer func() {
		if !ok {
			c.server.panicked(what, recover())
		}
	}()

	fn()

	return true
}
