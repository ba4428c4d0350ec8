// Package httpx is what surrounds every REST operation: the server, credentials,
// bodies, errors, idempotency, limits and server-sent events. It must not know a
// resource; everything it needs of the stores is a port in this package.
package httpx

import (
	"context"
	"log/slog"
	"time"

	"everloop/internal/limit"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"everloop/auth"
	"everloop/internal/clients"
	"everloop/internal/hosts"
)

// Limits of what a request may hold, in bytes.
const (
	maxJSON       = 10 << 20
	defaultMaxAny = 17 << 20 // what the server reads at all: the Socket.IO transport takes 16 MB
	maxHead       = 32 << 10 // of the first line with the headers: the longest parameters, percent-encoded, and long tokens
)

// Config is what the server is made of.
type Config struct {
	// Context ends the streams when it ends; nil: they end with the process.
	Context context.Context
	Version string // of the service, for the document

	Auth        *auth.Authenticator
	Auditor     *auth.Auditor // nil: nothing is recorded
	Idempotency IdempotencyStore
	Holder      string          // host and address of the server, which the claims of idempotency keys name
	Limiter     *auth.Limiter   // nil: no limit
	Rights      *auth.Changes   // carries changes of rights to open streams here and in other processes; nil: only here
	Hosts       hosts.List      // names that requests may name in addition to those that hosts.List allows
	Origins     []string        // origins that browsers may call from
	Proxies     clients.Proxies // whose X-Forwarded-For is believed
	MaxBody     int             // bytes of a request that are read at all; 0: 17 MB
	BodyBudget  int64           // bytes of all bodies that are in memory at once; 0: no bound
	StreamPulse time.Duration   // between keep-alive comments on a stream; 0: 15 s
	Logger      *slog.Logger    // nil: the default one
	Metrics     *prometheus.Registry
	Tracer      trace.Tracer // of requests; nil: they are not traced
	// Room fails while there is no space for temporary files; nil: there is always.
	Room func() error
}

// Server is the HTTP server on which operations are registered.
type Server struct {
	Config  Config // with its defaults
	App     *fiber.App
	API     huma.API
	Streams *Streams

	auth    *authenticator
	limiter *auth.Limiter
	once    *idempotency
}

// NewServer returns a new server whose operations enter the given document.
func NewServer(cfg Config, document huma.Config) *Server {
	if cfg.Context == nil {
		cfg.Context = context.Background()
	}

	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}

	if cfg.Rights == nil {
		cfg.Rights = auth.NewChanges(nil, cfg.Logger)
	}

	if cfg.MaxBody == 0 {
		cfg.MaxBody = defaultMaxAny
	}

	if cfg.StreamPulse == 0 {
		cfg.StreamPulse = 15 * time.Second
	}

	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}

	s := &Server{
		Config:  cfg,
		Streams: &Streams{logger: cfg.Logger, pulse: cfg.StreamPulse, auth: cfg.Auth},
		auth:    &authenticator{cfg.Auth, cfg.Auditor, addresses{cfg.Proxies}, cfg.Origins},
		limiter: cfg.Limiter,
		once:    &idempotency{cfg.Idempotency, cfg.Holder, cfg.Logger},
	}
	cfg.Rights.Watch(cfg.Auth.Forget) // before the streams, which check their credentials after it
	cfg.Rights.Watch(s.Streams.open.changed)

	s.App = fiber.New(fiber.Config{
		AppName:               "everloop",
		DisableStartupMessage: true,
		CaseSensitive:         true,
		Immutable:             true, // parameters outlive the request's buffer
		BodyLimit:             cfg.MaxBody,
		ReadBufferSize:        maxHead,
		ReadTimeout:           time.Minute,
		WriteTimeout:          WriteTimeout, // streams extend it as long as their client reads
		IdleTimeout:           2 * time.Minute,
		ErrorHandler:          fail,

		// Bodies are read by bodies.take, those of uploads by their handlers.
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
	})
	watching := observer{cfg.Context, cfg.Logger, cfg.Tracer, newMetrics(cfg.Metrics), cfg.Auditor, addresses{cfg.Proxies}}
	reading := bodies{limit.NewBudget(cfg.BodyBudget), cfg.MaxBody, s.auth}
	s.App.Use(
		watching.observe, addresses{cfg.Proxies}.countConnection, reading.take,
		checkHost(cfg.Hosts), crossOrigin(cfg.Origins), rejectBadPath,
	)
	routes := &adapter{app: s.App}
	s.API = huma.NewAPI(document, routes)
	routes.api = s.API
	rejectUnknownMethods(s.App)

	return s
}
