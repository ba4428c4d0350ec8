// Package gateway is the model gateway: one address, with its own keys, in front of the servers
// that run models. It serves chat completions, passes on unknown fields, and translates
// Anthropic's Messages and OpenAI's Responses. It bounds the concurrent requests of each
// source.
//
// It is a separate service, reached only over HTTP. It must not depend on sessions or on the
// agent's code.
package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"everloop/companions/credentials"
	"everloop/companions/edge"
	"everloop/companions/gateway/localserver"
	"everloop/internal/clients"
	"everloop/internal/hosts"
	"everloop/internal/release"
)

const (
	maxBody      = 64 << 20  // bytes of one request
	maxBodies    = 512 << 20 // total bytes of concurrent requests
	drainTimeout = 5 * time.Second
	keepAlive    = 15 * time.Second
	connections  = 4000 // of one client address: an agent has one for each model call
	watchEvery   = 2 * time.Second
)

// Config configures the service.
type Config struct {
	File    string // the settings; created when missing
	Key     string // the operator's; it permits every model, regardless of the file
	DemoURL string // URL of the mock service, for sources of the kind demo

	// Credentials resolves keys of the agent: keys of administrators open the management
	// interface. nil: only the operator's key does.
	Credentials *credentials.Checker

	Hosts hosts.List // names by which clients reach the service in addition to localhost and IP addresses
	Log   *slog.Logger

	KeepAlive time.Duration // idle time after which a stream receives a comment; 0: 15 s
	// Connections is the maximum of open connections of one client address; 0: 4000.
	Connections int

	BodyStall time.Duration // idle timeout of a body; 0: 1 min
	// WriteStall is the maximum time of a client to read one write; 0: 2 min.
	WriteStall time.Duration
}

// Service is the model gateway.
type Service struct {
	cfg    Config
	log    *slog.Logger
	mux    *http.ServeMux
	bodies *edge.Bodies
	usage  *ledger

	current atomic.Pointer[table]

	files   sync.Mutex            // held while the file is read or written
	seen    []byte                // the file as last read
	serving bool                  // servers of sources are started
	ending  []*localserver.Server // of sources that were removed

	cut     chan struct{} // closed when the gateway ends
	cutOnce sync.Once
}

// table is the parsed form of one version of the settings.
type table struct {
	set     Settings
	sources []*source
	callers []*caller
}

// New reads the settings; it does not listen.
func New(cfg Config) (*Service, error) {
	if cfg.Key == "" {
		return nil, errors.New("the gateway needs a key")
	}

	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}

	if cfg.KeepAlive <= 0 {
		cfg.KeepAlive = keepAlive
	}

	if cfg.Connections <= 0 {
		cfg.Connections = connections
	}

	if cfg.BodyStall <= 0 {
		cfg.BodyStall = edge.BodyStall
	}

	if cfg.WriteStall <= 0 {
		cfg.WriteStall = slowClient
	}

	s := &Service{
		cfg:    cfg,
		log:    cfg.Log,
		mux:    http.NewServeMux(),
		bodies: edge.NewBodies(maxBody, maxBodies, cfg.BodyStall),
		cut:    make(chan struct{}),
	}

	set, err := Load(cfg.File)
	if err != nil {
		return nil, err
	}

	if err := errors.Join(set.inspect(nil), set.keysApart(cfg.Key)); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}

	if s.seen, err = os.ReadFile(cfg.File); err != nil {
		return nil, err
	}

	if s.usage, err = openLedger(cfg.File); err != nil {
		return nil, err
	}

	s.use(set)
	s.routes()

	return s, nil
}

// DemoOnly reports whether no source is a real model server.
func (s *Service) DemoOnly() bool { return s.table().set.DemoOnly() }

func (s *Service) table() *table { return s.current.Load() }

// use replaces the settings. Unchanged sources and keys retain their requests, queues and
// breakers; requests on the others finish with the previous settings.
func (s *Service) use(set Settings) {
	next := &table{set: set}

	before := s.table()
	for _, one := range set.Sources {
		next.sources = append(next.sources, before.sourceLike(one, s.cfg.DemoURL))
	}

	for _, one := range append([]Key{{Name: operator, Key: s.cfg.Key}}, set.Keys...) {
		next.callers = append(next.callers, before.callerLike(one))
	}

	s.supervise(before, next)
	s.current.Store(next)
}

func (t *table) sourceLike(set Source, demoURL string) *source {
	if t != nil {
		for i, other := range t.set.Sources {
			if sameSource(other, set) {
				return t.sources[i]
			}
		}
	}

	return newSource(set, demoURL)
}

func sameSource(a, b Source) bool {
	return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
}

func (t *table) callerLike(k Key) *caller {
	fresh := newCaller(k)

	if t != nil {
		for _, old := range t.callers {
			if old.hash == fresh.hash && old.name == fresh.name && old.most == fresh.most &&
				fmt.Sprint(old.models) == fmt.Sprint(fresh.models) {
				return old
			}
		}
	}

	return fresh
}

// watch reloads the file when it has changed. Invalid settings are ignored.
func (s *Service) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.files.Lock()
			changed := s.reload()
			s.files.Unlock()

			if changed {
				s.warmUp()
			}

			s.save()
		}
	}
}

// reload applies the file if its content differs from the last read one. The caller must hold
// the lock files.
func (s *Service) reload() (changed bool) {
	text, err := os.ReadFile(s.cfg.File)
	if err != nil {
		s.log.Error("failed to read the configuration of the gateway", "error", err)
		return false
	}

	if bytes.Equal(text, s.seen) {
		return false
	}

	s.seen = text

	set, err := Parse(text)
	if err == nil {
		err = errors.Join(set.inspect(s.table()), set.keysApart(s.cfg.Key))
	}

	if err != nil {
		s.log.Error("failed to take over the configuration of the gateway; the one before stays", "error", err)
		return false
	}

	s.use(set)
	s.log.Info("configuration of the gateway changed", "sources", len(set.Sources), "keys", len(set.Keys))

	return true
}

func (s *Service) save() {
	if err := s.usage.save(); err != nil {
		s.log.Error("failed to keep the usage of the gateway", "error", err)
	}
}

// Serve serves on a listener, which it closes, until the context ends; then it waits some
// seconds for open requests.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}

	bound := clients.NewConnections(s.cfg.Connections, nil)

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(bound.Listen(listener, clients.Refusal)) }()

	s.files.Lock()
	err := errors.Join(removeParts(s.cfg.File), removeParts(s.usage.file))
	s.files.Unlock()

	if err != nil {
		s.log.Warn("failed to remove unfinished files of the gateway", "error", err)
	}

	go s.watch(ctx)

	s.starts()
	defer s.endServers()

	s.warmUp()
	s.log.Info("model gateway listens", "addr", listener.Addr().String(), "sources", len(s.table().sources))

	select {
	case err := <-failed:
		return fmt.Errorf("model gateway: %w", err)
	case <-ctx.Done():
	}

	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()

	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // aborts answers that did not end in time
	}

	s.save()

	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("model gateway: %w", err)
	}

	return nil
}

func (s *Service) routes() {
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /v1/models", s.withKey(s.listModels))
	s.mux.HandleFunc("GET /v1/models/{id...}", s.withKey(s.getModel))
	s.mux.HandleFunc("POST /v1/chat/completions", s.withKey(s.forward("/chat/completions")))
	s.mux.HandleFunc("POST /v1/messages", s.messages)
	s.mux.HandleFunc("POST /v1/messages/count_tokens", s.countTokens)
	s.mux.HandleFunc("/v1/messages", s.noMessages)
	s.mux.HandleFunc("/v1/messages/", s.noMessages)
	s.mux.HandleFunc("POST /v1/responses", s.responses)
	s.mux.HandleFunc("POST /v1/embeddings", s.withKey(s.forward("/embeddings")))
	s.mux.HandleFunc("POST /v1/audio/transcriptions", s.withKey(s.forward(transcriptions)))
	s.mux.HandleFunc("GET /admin/usage", s.managed(s.showUsage))
	s.mux.HandleFunc("GET /admin", showPage)
	s.mux.HandleFunc("GET /admin/config", s.managed(s.operatorOnly(s.showConfig)))
	s.mux.HandleFunc("PUT /admin/config", s.managed(s.operatorOnly(s.putConfig)))
	s.mux.HandleFunc("/", s.noRoute)
}

// noRoute responds to unknown paths, and to unsupported methods of known paths.
func (s *Service) noRoute(w http.ResponseWriter, r *http.Request) {
	unrouted(w, r, edge.Allowed(s.mux, r))
}

// unrouted responds to a path with the allowed methods; none: 404.
func unrouted(w http.ResponseWriter, r *http.Request, allowed []string) {
	if len(allowed) == 0 {
		writeError(w, &apiError{
			status: http.StatusNotFound, Type: "invalid_request_error", Code: "route_not_found",
			Message: "there is no " + r.Method + " " + r.URL.Path + " here",
		})

		return
	}

	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	writeError(w, &apiError{
		status: http.StatusMethodNotAllowed, Type: "invalid_request_error", Code: "method_not_allowed",
		Message: "this path takes " + list + " only",
	})
}

// Handler returns the handler of the whole service.
func (s *Service) Handler() http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		w := newTimedWriter(plain, s.cfg.WriteStall)
		edge.Await(w, r, s.cfg.BodyStall)
		w.Header().Set("X-Request-Id", rand.Text())
		w.Header().Set(release.Header, release.Version)

		if !s.cfg.Hosts.Allows(r.Host) { // against DNS rebinding
			writeError(w, &apiError{
				status: http.StatusForbidden, Type: "invalid_request_error", Code: "host_not_allowed",
				Message: "this host name is not allowed: add it to ALLOWED_HOSTS",
			})

			return
		}

		s.mux.ServeHTTP(w, r)
	})
}

// withKey rejects requests without a valid key.
func (s *Service) withKey(next func(http.ResponseWriter, *http.Request, *caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := find(s.table().callers, credential(r))
		if by == nil {
			writeError(w, noKey())
			return
		}

		next(w, r, by)
	}
}

func noKey() *apiError {
	return &apiError{
		status: http.StatusUnauthorized, Type: "authentication_error", Code: "invalid_api_key",
		Message: "send a key of the gateway as Authorization: Bearer or as x-api-key",
	}
}

// sourceHealth is the state of a source in /health.
type sourceHealth struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Healthy   bool   `json:"healthy"`
	InFlight  int    `json:"in_flight"`
	Queued    int    `json:"queued"`
	LastError string `json:"last_error,omitempty"`
	Latency   int64  `json:"latency_ms_p50"`

	Server *serverHealth `json:"server,omitempty"`
}

// health shows the sources to any client. It probes a source that no request has reached for
// some seconds. The output of the servers that the gateway runs is visible only with a
// management key.
func (s *Service) health(w http.ResponseWriter, r *http.Request) {
	t := s.table()
	_, _ = t.list(r.Context(), &caller{}) // probes each source without recent contact

	runs := slices.ContainsFunc(t.sources, func(one *source) bool { return one.local != nil })
	output := runs && s.manages(r)

	sources := []sourceHealth{}
	for _, one := range t.sources {
		is, fault := one.healthy(time.Now())
		running, waiting := one.queue.Load()
		sources = append(sources, sourceHealth{
			Name: one.Name, Kind: one.Kind, Healthy: is, InFlight: running, Queued: waiting,
			LastError: fault, Latency: one.p50().Milliseconds(), Server: one.serverHealth(output),
		})
	}

	writeJSON(w, http.StatusOK, map[string]any{"ok": true, "sources": sources})
}
