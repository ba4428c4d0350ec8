// Package model is a client of model servers with the chat-completions API: it sends a prompt,
// reads the streamed answer and classifies errors as faults of the domain. It does not depend on
// sessions, tools or retries; the caller handles faults.
//
// Requests use the types of sashabaranov/go-openai. The stream is parsed here: that library's
// reader reports a truncated stream as a normal end, loses error objects that follow a keep-alive
// comment or have another shape than OpenAI's, drops the Retry-After header and does not limit
// the length of a line.
package model

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"everloop/domain"
	"everloop/infra/tracing"
)

// Defaults of a Config.
const (
	DefaultContextWindow = 128_000
	DefaultIdleTimeout   = 2 * time.Minute
	DefaultFirstTimeout  = 10 * time.Minute
	DefaultListTTL       = 5 * time.Second
)

// Limits of one answer. Beyond them the call fails permanently, because a repetition is likely to
// exceed them again.
const (
	maxTextBytes = 8 << 20 // for each of text, thinking and tool arguments
	maxToolCalls = 256
	maxLineBytes = 16 << 20 // a whole tool call can be one escaped line
)

// Config contains the server's address, credentials, defaults and timeouts.
type Config struct {
	BaseURL       string // of the server, with or without the trailing /v1 (LLM_GATEWAY_URL)
	Key           string // bearer token; empty: none
	DefaultModel  string // for requests without a model; empty: the first of the server's list
	ContextWindow int64  // tokens, for models without it in the list; 0: DefaultContextWindow

	// Prices by model name override the prices of the server's list.
	Prices map[string]domain.Price

	// ReasoningHistory selects the reasoning to send back, for models without it in the list;
	// empty: tool_loop.
	ReasoningHistory domain.ReasoningHistory

	// IdleTimeout is the maximum time between two chunks of a stream. Keep-alive comments do not
	// reset it. 0: DefaultIdleTimeout.
	IdleTimeout time.Duration
	// FirstTimeout is the maximum wait for the response's header, and again for the first chunk:
	// loading a model or processing a long prompt takes minutes. 0: DefaultFirstTimeout.
	FirstTimeout time.Duration
	// ListTTL is how long a model list, or the failure to get one, is cached. 0: DefaultListTTL.
	ListTTL time.Duration

	Limits Limits // nil: refusals are not stored

	Tracing *tracing.Tracing // nil: calls are not traced or measured

	Transport http.RoundTripper // nil: a transport for long streams
}

// Client calls one model server. It is safe for concurrent use and does not retry, except Stream
// without a refused feature.
type Client struct {
	cfg  Config
	base string
	http *http.Client

	flight singleflight.Group
	mu     sync.Mutex
	list   listing

	limits limits
}

// New returns a new client; it does not connect.
func New(cfg Config) *Client {
	if cfg.ContextWindow <= 0 {
		cfg.ContextWindow = DefaultContextWindow
	}

	if cfg.ReasoningHistory == "" {
		cfg.ReasoningHistory = domain.ReasoningToolLoop
	}

	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = DefaultIdleTimeout
	}

	if cfg.FirstTimeout <= 0 {
		cfg.FirstTimeout = DefaultFirstTimeout
	}

	if cfg.ListTTL <= 0 {
		cfg.ListTTL = DefaultListTTL
	}

	if cfg.Transport == nil {
		cfg.Transport = newTransport(cfg.FirstTimeout)
	}

	base := strings.TrimRight(cfg.BaseURL, "/")

	return &Client{
		cfg:    cfg,
		limits: limits{store: cfg.Limits},
		base:   strings.TrimSuffix(base, "/v1") + "/v1",
		http: &http.Client{ // no total timeout: a stream can last as long as data arrives
			Transport: cfg.Transport,
			// Do not follow redirects: they would send the prompt, a recording or the key to
			// another address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// newTransport returns a transport with enough idle connections for many concurrent sessions. It
// disables compression, which would delay the events of a stream.
func newTransport(header time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}

	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: header,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true,
		ReadBufferSize:        16 << 10,
	}
}

// authorize sets the key of a request.
func (c *Client) authorize(r *http.Request) {
	if c.cfg.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
}

func transient(message string) *domain.ModelError {
	return &domain.ModelError{Fault: domain.FaultTransient, Message: message}
}

func refused(message string) *domain.ModelError {
	return &domain.ModelError{Fault: domain.FaultRefused, Message: message}
}
