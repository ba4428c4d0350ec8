package realtime

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"everloop/domain"
)

// Names of the client events (agent-service.md "Client to service"), and of
// what the service sends besides the events of sessions.
const (
	SessionSubscribe   = "session:subscribe"
	SessionUnsubscribe = "session:unsubscribe"
	ChatSend           = "chat:send"
	ChatStop           = "chat:stop"
	ChatCompact        = "chat:compact"

	SessionResync = "session:resync"
	SessionError  = "session:error"
)

// requestTimeout is how long one client event may take.
const requestTimeout = 30 * time.Second

// Conn is a client's connection as the transport gives it. No method blocks.
type Conn interface {
	ID() string
	Identity() any // a domain.Caller
	// Emit queues an event; false when the connection's buffer is full or the
	// connection is gone.
	Emit(event string, data json.RawMessage) bool
	// OnDrained sets what is called when the buffer has room again after an
	// Emit that returned false.
	OnDrained(fn func())
	// Context ends when the connection is lost.
	Context() context.Context
	Close()
}

// ProtocolConfig says what a protocol works with.
type ProtocolConfig struct {
	Hub      *Hub
	Sessions Sessions
	Desk     Desk
	// Recheck is how often every connection's credential and every
	// subscription's permission are checked again; default 30 s.
	Recheck time.Duration
	Logger  *slog.Logger
}

// Protocol answers the client events of decisions.md section 3 and sends the
// events of the sessions that a connection follows. For one connection its
// methods are called one after the other, as package sio does.
type Protocol struct {
	cfg     ProtocolConfig
	mu      sync.Mutex
	clients map[string]*client
}

// NewProtocol makes a protocol; let [Protocol.Run] run beside it.
func NewProtocol(cfg ProtocolConfig) *Protocol {
	if cfg.Recheck == 0 {
		cfg.Recheck = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Protocol{cfg: cfg, clients: map[string]*client{}}
}

// Connected registers a connection whose identity is a domain.Caller.
func (p *Protocol) Connected(conn Conn) {
	caller, ok := conn.Identity().(domain.Caller)
	if !ok {
		p.cfg.Logger.Error("a connection has no caller", "conn", conn.ID())
		conn.Close()
		return
	}
	c := newClient(conn, caller)
	conn.OnDrained(c.drain)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[conn.ID()] = c
}

// Disconnected ends what the connection followed.
func (p *Protocol) Disconnected(conn Conn) {
	p.mu.Lock()
	c := p.clients[conn.ID()]
	delete(p.clients, conn.ID())
	p.mu.Unlock()
	if c != nil {
		c.end()
	}
}

func (p *Protocol) client(conn Conn) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clients[conn.ID()]
}

// handler serves one client event. then, when not nil, is called behind the
// acknowledgement.
type handler func(p *Protocol, c *client, payload json.RawMessage) (answer any, then func(), err error)

var handlers = map[string]handler{
	SessionSubscribe:   (*Protocol).subscribe,
	SessionUnsubscribe: (*Protocol).unsubscribe,
	ChatSend:           (*Protocol).send,
	ChatStop:           (*Protocol).stop,
	ChatCompact:        (*Protocol).compact,
}

// Event serves one client event: it calls ack with the answer, or emits
// session:error when the client gave no callback and the event failed.
func (p *Protocol) Event(conn Conn, name string, payload json.RawMessage, ack func(v any)) {
	c := p.client(conn)
	if c == nil {
		return // it was refused, and is closing
	}
	handle, ok := handlers[name]
	if !ok {
		p.refuse(c, name, payload, ack, domain.Newf(domain.Invalid, domain.CodeUnknownEvent, "there is no event of that name"))
		return
	}
	if !p.alive(c) {
		p.refuse(c, name, payload, ack, unauthorized())
		conn.Close()
		return
	}
	answer, then, err := handle(p, c, payload)
	if err != nil {
		p.refuse(c, name, payload, ack, err)
		return
	}
	if ack != nil {
		ack(answer)
	}
	if then != nil {
		then()
	}
}

// Malformed answers a message that the transport could not accept as an event.
func (p *Protocol) Malformed(conn Conn, name, code, message string, ack func(v any)) {
	if c := p.client(conn); c != nil {
		p.refuse(c, name, nil, ack, domain.Newf(domain.Invalid, code, "%s", message))
	}
}

// Failure is the error of an acknowledgement and of session:error.
type Failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// NewFailure is what a client is told of an error.
func NewFailure(err error) Failure {
	e := domain.AsError(err)
	return Failure{Code: e.Code, Message: e.Message, Retryable: e.Retryable()}
}

// refused is the acknowledgement of an event that failed.
type refused struct {
	OK    bool    `json:"ok"`
	Error Failure `json:"error"`
}

// sessionError tells of a failure where there was no callback.
type sessionError struct {
	SessionID string  `json:"session_id,omitempty"`
	Event     string  `json:"event"`
	Error     Failure `json:"error"`
}

func (p *Protocol) refuse(c *client, name string, payload json.RawMessage, ack func(v any), err error) {
	if e := domain.AsError(err); e.Kind == domain.Internal || e.Kind == domain.Unavailable {
		p.cfg.Logger.Error("a client event failed", "event", name, "user", c.caller.User.ID, "error", err)
	}
	if ack != nil {
		ack(refused{Error: NewFailure(err)})
		return
	}
	about, _ := sessionOf(payload)
	c.emit(SessionError, sessionError{SessionID: about, Event: name, Error: NewFailure(err)})
}

// sessionOf is the session that a payload names, when it names one.
func sessionOf(payload json.RawMessage) (string, error) {
	f := object("body", payload)
	id := f.text("session_id")
	return id, f.err
}

func unauthorized() error {
	return domain.Newf(domain.Unauthenticated, domain.CodeUnauthorized, "the credential is not valid any more")
}

// request is the context of one client event. A message that arrived is served even when
// its connection is lost meanwhile.
func request(c *client) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.conn.Context()), requestTimeout)
}
