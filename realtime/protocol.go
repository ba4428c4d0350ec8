package realtime

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"everloop/auth"
	"everloop/chatrequest"
	"everloop/domain"
)

// Names of the client events (docs/events.md).
const (
	SessionSubscribe   = "session:subscribe"
	SessionUnsubscribe = "session:unsubscribe"
	ChatSend           = "chat:send"
	ChatStop           = "chat:stop"
	ChatCompact        = "chat:compact"
)

// requestTimeout bounds the handling of one client event.
const requestTimeout = 30 * time.Second

// Conn is a client's connection as the transport provides it. No method blocks.
type Conn interface {
	ID() string
	Identity() any // a domain.Caller
	// Emit queues an event; false when the connection's buffer is full or the connection is
	// closed.
	Emit(event string, data json.RawMessage) bool
	// OnDrained sets the function to call when the buffer has space again after an Emit that
	// returned false.
	OnDrained(fn func())
	// Context ends when the connection is lost.
	Context() context.Context
	Close()
}

// ProtocolConfig contains the dependencies and settings of a protocol.
type ProtocolConfig struct {
	Hub      *Hub
	Sessions Sessions
	Chats    Chats
	// Recheck is the interval at which every connection's credential and every subscription's
	// permission are checked again; default 30 s.
	Recheck time.Duration
	Limiter *auth.Limiter // shared with the other edge; nil: unlimited
	Auditor *auth.Auditor // nil: no audit log
	Tracer  trace.Tracer  // of client events; nil: they are not traced
	Logger  *slog.Logger
}

// Protocol handles the client events of docs/events.md and sends the events of the sessions
// that a connection follows. The calls for one connection must be sequential, as package sio
// guarantees.
type Protocol struct {
	cfg     ProtocolConfig
	mu      sync.Mutex
	clients map[string]*client
}

// NewProtocol returns a new protocol; run [Protocol.Run] alongside it.
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
		p.cfg.Logger.Error("connection has no caller", "conn", conn.ID())
		conn.Close()

		return
	}

	c := newClient(conn, caller)
	conn.OnDrained(c.drain)
	p.mu.Lock()
	p.clients[conn.ID()] = c
	p.mu.Unlock()
	// RightsChanged did not see the connection between its authentication and here. The
	// authenticator has just looked up the credential, so this is rarely a query.
	if !p.alive(conn.Context(), c)[0] {
		conn.Close()
	}
}

// Disconnected ends the connection's subscriptions.
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

// handler serves one client event. then, when not nil, is called after the acknowledgement.
type handler func(p *Protocol, ctx context.Context, c *client, payload json.RawMessage) (answer any, then func(), err error)

// clientEvent is the handler of a client event, and the scope that a restricted key needs for
// it.
type clientEvent struct {
	scope auth.Scope
	serve handler
}

var clientEvents = map[string]clientEvent{
	SessionSubscribe:   {auth.SessionsRead, (*Protocol).subscribe},
	SessionUnsubscribe: {auth.AnyScope, (*Protocol).unsubscribe},
	ChatSend:           {auth.Chat, (*Protocol).send},
	ChatStop:           {auth.Chat, (*Protocol).stop},
	ChatCompact:        {auth.Chat, (*Protocol).compact},
}

// ClientEvents returns every client event with the scope that it needs.
func ClientEvents() map[string]auth.Scope {
	scopes := make(map[string]auth.Scope, len(clientEvents))
	for name, event := range clientEvents {
		scopes[name] = event.scope
	}

	return scopes
}

// Admits rejects a caller whose scopes allow no client event with an effect: such a key cannot
// use a connection.
func Admits(caller domain.Caller) error {
	if auth.Allows(caller, auth.Chat) {
		return nil
	}

	return auth.Check(caller, auth.SessionsRead)
}

// Event handles one client event: it calls ack with the answer, or emits session:error when the
// client sent no callback and the event failed.
func (p *Protocol) Event(conn Conn, name string, payload json.RawMessage, ack func(v any)) {
	c := p.client(conn)
	if c == nil {
		return // it was rejected, and is closing
	}

	event, ok := clientEvents[name]
	if !ok {
		p.refuse(
			c.conn.Context(),
			c,
			name,
			payload,
			ack,
			domain.Newf(domain.Invalid, domain.CodeUnknownEvent, "there is no event of that name"),
		)

		return
	}

	ctx, span := p.startSpan(c.conn.Context(), name)
	defer span.End()

	if !p.alive(ctx, c)[0] {
		p.refuse(ctx, c, name, payload, ack, unauthorized())
		conn.Close()

		return
	}

	answer, then, err := p.serve(ctx, c, event, payload)
	if err != nil {
		p.refuse(ctx, c, name, payload, ack, err)
		return
	}

	if ack != nil {
		ack(answer)
	}

	if then != nil {
		then()
	}
}

// serve checks the caller's scopes and rate, then handles the event.
func (p *Protocol) serve(ctx context.Context, c *client, event clientEvent, payload json.RawMessage) (any, func(), error) {
	if _, err := p.cfg.Limiter.Take(c.caller); err != nil {
		return nil, nil, err
	}

	if err := auth.Check(c.caller, event.scope); err != nil {
		return nil, nil, err
	}

	return event.serve(p, ctx, c, payload)
}

// Malformed answers a message that the transport could not parse as an event.
func (p *Protocol) Malformed(conn Conn, name, code, message string, ack func(v any)) {
	if c := p.client(conn); c != nil {
		p.refuse(c.conn.Context(), c, name, nil, ack, domain.Newf(domain.Invalid, code, "%s", message))
	}
}

// refused returns the acknowledgement of a failed event.
type refused struct {
	OK    bool           `json:"ok"`
	Error domain.Failure `json:"error"`
}

func (p *Protocol) refuse(ctx context.Context, c *client, name string, payload json.RawMessage, ack func(v any), err error) {
	ctx, cancel := request(ctx)
	defer cancel()

	trace.SpanFromContext(ctx).SetStatus(codes.Error, "")
	p.cfg.Auditor.Refused(ctx, c.caller, auth.EdgeSocketIO, "", name, err)

	if e := domain.AsError(err); e.Kind == domain.Internal || e.Kind == domain.Unavailable {
		attrs := []any{"event", name, "user", c.caller.User.ID, "error", err}
		p.cfg.Logger.Error("failed to handle a client event", append(attrs, traceAttribute(ctx)...)...)
	}

	if ack != nil {
		ack(refused{Error: domain.NewFailure(err)})
		return
	}

	var about sessionNamed

	_ = chatrequest.Decode(payload, &about) // the error has no session if the payload names none
	c.emit(domain.EventSessionError, domain.SessionError{SessionID: about.SessionID, Event: name, Error: domain.NewFailure(err)})
}

func unauthorized() error {
	return domain.Newf(domain.Unauthenticated, domain.CodeUnauthorized, "the credential is not valid any more")
}

// request bounds the context of one client event. A received message is handled even if its
// connection is lost in the meantime.
func request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
}
