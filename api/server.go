// Package api is the REST door: it parses requests, asks one port, and answers.
// Its types are the contract: validation and the OpenAPI document come from them.
// It must not know an engine; everything it needs is a port in this package, and
// the wiring supplies it. One file is one area of the specification.
package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"everloop/auth"
	"everloop/domain"
)

// Limits of what a request may hold, in bytes.
const (
	maxJSON       = 10 << 20 // decisions.md section 2
	defaultMaxAny = 17 << 20 // what the server reads at all: the Socket.IO transport takes 16 MB
	maxHead       = 32 << 10 // of the first line with the headers: the longest parameters, percent-encoded, and long tokens
)

// requestTimeout bounds a request that is not a stream: a client that has left
// is not noticed otherwise.
const requestTimeout = 30 * time.Second

// Config is what the interface is made of. The ports are required unless they
// say otherwise.
type Config struct {
	// Context ends the streams when it ends: give it the one that a shutdown cancels.
	Context context.Context

	Auth           *auth.Authenticator
	Store          Store
	Messages       Messages
	Desk           Desk
	Streams        Streams
	Tasks          Tasks
	Workspaces     Workspaces
	Images         Images
	Models         Models
	Deleter        Deleter
	Compactor      Compactor
	Contexts       Contexts
	Tokens         Tokens
	ModelFinder    ModelFinder
	Memories       Memories
	History        History
	Solutions      Solutions
	Skills         Skills
	Budgets        Budgets
	EnvBuckets     EnvBuckets
	Administration Administration
	Diagnostics    Diagnostics
	Registry       Registry
	Apps           Apps
	AppRecords     AppRecords
	Compute        ComputeEnvironment
	Runs           OperatorRuns
	Inbox          Inbox
	GIS            func(ctx context.Context) domain.GISStatus
	UserSettings   UserSettings
	Replays        Replays
	Shares         Shares
	ExtraInfos     ExtraInfos
	Transfers      Transfers
	// Profile says how the agent of a session is set up.
	Profile    func(domain.Session) domain.Profile
	RoleRights RoleRights
	MCP        MCPServers
	MCPWorkers MCPWorkers
	Readiness  Readiness // nil: always ready
	// RightsChanged is called when a session was deleted or is no longer shared,
	// so that who follows it elsewhere is looked at again; nil: nobody is told.
	RightsChanged func(ctx context.Context, sessionID string)

	Version     Version
	Client      ClientConfig
	Setup       SessionSetup // what every session is set up with
	Origins     []string     // origins that browsers may call from, as https://desktop.example
	RateLimit   RateLimit    // zero: no limit
	MaxBody     int          // bytes of a request that are read at all; 0: 17 MB
	Logger      *slog.Logger // nil: the default one
	Metrics     *prometheus.Registry
	StreamPulse time.Duration // between keep-alive comments on a stream; 0: 15 s
}

// server holds what the handlers share.
type server struct {
	Config
	app     *fiber.App
	huma    huma.API
	limiter *limiter
	metrics *metrics
	open    openStreams
}

// New makes the REST interface as a Fiber application, on which the wiring may
// mount further transports before it listens.
func New(cfg Config) *fiber.App {
	if cfg.Context == nil {
		cfg.Context = context.Background()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
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
	s := &server{Config: cfg, limiter: newLimiter(cfg.RateLimit), metrics: newMetrics(cfg.Metrics)}
	s.app = fiber.New(fiber.Config{
		AppName:               "everloop",
		DisableStartupMessage: true,
		CaseSensitive:         true,
		Immutable:             true, // parameters outlive the request's buffer
		BodyLimit:             cfg.MaxBody,
		ReadBufferSize:        maxHead,
		ReadTimeout:           time.Minute,
		WriteTimeout:          streamPatience, // streams extend it as long as their client reads
		IdleTimeout:           2 * time.Minute,
		ErrorHandler:          s.fail,

		// Bodies are read by takeBody, those of uploads by their handlers.
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
	})
	s.app.Use(s.observe, s.takeBody, s.crossOrigin, refuseBadPath)
	s.huma = huma.NewAPI(s.document(), &adapter{app: s.app})
	s.metaRoutes()
	s.meRoutes()
	s.sessionRoutes()
	s.messageRoutes()
	s.fileRoutes()
	s.attachmentRoutes()
	s.chatRoutes()
	s.eventRoutes()
	s.taskRoutes()
	s.contextRoutes()
	s.keyRoutes()
	s.memoryRoutes()
	s.mcpRoutes()
	s.historyRoutes()
	s.solutionRoutes()
	s.skillRoutes()
	s.budgetRoutes()
	s.envBucketRoutes()
	s.diagnosticRoutes()
	s.registryRoutes()
	s.appRoutes()
	s.computeRoutes()
	s.runRoutes()
	s.administrationRoutes()
	s.preferenceRoutes()
	s.userRoutes()
	s.replayRoutes()
	s.shareRoutes()
	s.extraInfoRoutes()
	s.transferRoutes()
	s.documentRoutes()
	s.complete()
	s.refuseUnknownMethods()
	return s.app
}

// operation describes one route beside its handler.
type operation struct {
	id      string // operationId of the document
	method  string
	path    string
	tag     string
	summary string
	scope   auth.Scope
	public  bool // no credentials asked
	status  int  // of success; 0: 200, or 204 without a body
	repeats bool // answers a repeated Idempotency-Key itself
	secret  bool // its answer holds a secret and is not kept for repeats
	stream  bool // may outlive requestTimeout
	hidden  bool // not in the document
	changes func(*huma.Operation)
}

// add registers a handler with everything that surrounds it.
func add[I, O any](s *server, op operation, handler func(context.Context, *I) (*O, error)) {
	described := huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Tags: []string{op.tag}, Summary: op.summary,
		DefaultStatus: op.status, Hidden: op.hidden, MaxBodyBytes: maxJSON + 1,
		Middlewares: huma.Middlewares{s.admit(op)}, Metadata: map[string]any{registration: op},
	}
	if op.stream {
		described.Metadata[streams] = true
	}
	if !op.public {
		// What is refused further on counts too, and says what is left.
		described.Middlewares = huma.Middlewares{s.authenticate, s.limit, s.admit(op)}
		if op.method == fiber.MethodPost {
			described.Middlewares = append(described.Middlewares, s.idempotent(op))
		}
	}
	if op.changes != nil {
		op.changes(&described)
	}
	huma.Register(s.huma, described, func(ctx context.Context, in *I) (*O, error) {
		if !op.stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, requestTimeout)
			defer cancel()
		}
		return handler(ctx, in)
	})
}

// streams marks an operation whose answer has no end of its own: there is no
// HEAD of it.
const streams = "stream"

// request is what is known of the request in hand; every context of it carries
// the same one.
type request struct {
	id     string
	route  string // the pattern, as /api/sessions/{session_id}
	caller domain.Caller
	base   context.Context // ends with the process
	once   *once           // nil without an Idempotency-Key
	events bool            // the client takes server-sent events
	body   *incoming       // a form that is read as it comes; nil when the body was read already
}

type requestKey struct{}

func withRequest(ctx context.Context, r *request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// requestOf is never nil: a context without a request gives an empty one.
func requestOf(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	return &request{base: ctx}
}

func callerOf(ctx context.Context) domain.Caller { return requestOf(ctx).caller }

// body is the output of an operation that answers with one JSON value.
type body[T any] struct{ Body T }

func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}
