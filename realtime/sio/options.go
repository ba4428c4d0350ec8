package sio

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"
)

// Limits that are part of the protocol with the official client.
const (
	// DefaultMaxMessage is the largest message, in bytes, that reaches [Handler.Event].
	DefaultMaxMessage = 10 << 20
	// DefaultMaxTransport is the largest message, in bytes, that the transport accepts. A
	// message between the two sizes is answered with an error, above it its connection is
	// closed.
	DefaultMaxTransport = 16 << 20
	// DefaultBufferLimit bounds the buffer of one slow connection, in bytes.
	DefaultBufferLimit = 4 << 20
	// DefaultEventRate is the sustained maximum of packets per second of one connection; a
	// burst of five times as many is accepted immediately.
	DefaultEventRate = 2000
)

const (
	defaultPingInterval   = 25 * time.Second
	defaultPingTimeout    = 20 * time.Second
	defaultConnectTimeout = 5 * time.Second

	// maxHandshake bounds one message of a client that has not joined yet: it contains only the
	// token.
	maxHandshake = 64 << 10
	// maxConnectTries bounds the CONNECT packets of one connection, accepted or not: a client
	// can try a second token, but cannot guess without limit.
	maxConnectTries = 5
	// maxAttachments bounds the binary parts that are skipped after a refused
	// binary event.
	maxAttachments = 16
	// maxDepth bounds the nesting of an event's JSON.
	maxDepth = 128
	// maxEventName is the longest name of an event, in bytes.
	maxEventName = 256
)

// Authenticate resolves the token of the handshake to an identity. r is the HTTP request that
// opened the connection, for its cookies and address; its body is closed and its context has
// ended: use ctx, which ends with the connection or after the connect timeout. An error rejects
// the client with the message and code "unauthorized", unless it is a [Refusal].
type Authenticate func(ctx context.Context, token string, r *http.Request) (identity any, err error)

// Refusal is an error of [Authenticate] that does not concern the token, such as too many
// guesses or an unavailable dependency. The client's connect_error has Code as its message and
// {code, retryable} as its data.
type Refusal struct {
	Code      string
	Retryable bool
}

func (e *Refusal) Error() string { return "connection refused: " + e.Code }

// Options configure a [Server]. Zero values are replaced by the defaults above.
type Options struct {
	Authenticate Authenticate
	Handler      Handler

	// AllowedOrigins are the origins of other sites whose pages can connect, such as
	// "https://office.example". Pages of other foreign origins are rejected, clients without an
	// Origin are not.
	AllowedOrigins []string

	// MaxMessage and MaxTransport are in bytes, see [DefaultMaxMessage].
	MaxMessage   int64
	MaxTransport int64
	// BufferLimit is in bytes, see [Conn.Emit].
	BufferLimit int
	// EventRate is in packets a second, see [DefaultEventRate]. A faster client is read more
	// slowly.
	EventRate int

	PingInterval   time.Duration
	PingTimeout    time.Duration
	ConnectTimeout time.Duration

	Log *slog.Logger
}

// Handler receives the events of connections. The calls for one connection are sequential:
// Connected, then events, then Disconnected. A panic is caught and logged, and the event that
// caused it is answered with an error.
type Handler interface {
	// Connected is called when a client has authenticated and joined.
	Connected(c *Conn)
	// Event is called for each event. payload is one JSON object, or nil when
	// the client sent none or null. ack answers the client's callback, once, with a
	// value that marshals to JSON; it is nil when the client gave no callback. It may be
	// called later and from any goroutine. Events that were received before the connection was lost are
	// still handed over: see [Conn.Context].
	Event(c *Conn, name string, payload json.RawMessage, ack func(v any))
	// Malformed is called instead of Event for a message whose name was parsed but which is
	// invalid: see [Fault].
	Malformed(c *Conn, event string, fault Fault, ack func(v any))
	// Disconnected is the last call for a connection.
	Disconnected(c *Conn, reason string)
}

// Fault describes why a message was rejected.
type Fault struct {
	// Code is stable: one of the Fault constants.
	Code string
	// Message is a sentence for people.
	Message string
}

// Codes of a [Fault].
const (
	FaultTooLarge  = "payload_too_large"
	FaultBinary    = "binary_not_supported"
	FaultNotObject = "payload_not_object"
	FaultArguments = "too_many_arguments"
	FaultTooDeep   = "payload_too_deep"
	FaultReserved  = "reserved_event"
	FaultEventName = "invalid_event_name"
)

func (o Options) withDefaults() Options {
	setDefault(&o.MaxMessage, DefaultMaxMessage)
	setDefault(&o.MaxTransport, DefaultMaxTransport)
	setDefault(&o.BufferLimit, DefaultBufferLimit)
	setDefault(&o.EventRate, DefaultEventRate)
	setDefault(&o.PingInterval, defaultPingInterval)
	setDefault(&o.PingTimeout, defaultPingTimeout)
	setDefault(&o.ConnectTimeout, defaultConnectTimeout)

	if o.MaxTransport < o.MaxMessage {
		o.MaxTransport = o.MaxMessage
	}

	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
