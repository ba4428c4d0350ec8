// Package mock is the mock service: a scripted model behind the
// chat-completions interface. With no model configured it lets a first user see
// what an agent does, and says in every conversation that it is a script; for
// tests and benchmarks it does exactly what a message orders, faults included.
//
// It is a service of its own, reached over HTTP only. It knows nothing of
// sessions or of the agent's code: what it answers follows from the messages of
// the request, so that a restart changes nothing. Kept in memory are only the
// counters of fail_times, the streams held open and, where tests ask for it, a
// log of requests.
//
// # Orders
//
// The last user message may hold a script:
//
//	[[script]]{"steps": [{"text": "hello", "calls": [{"name": "Bash", "arguments": {"command": "true"}}]}]}[[/script]]
//
// Step k answers the k-th model call after that message; after the last step
// comes a closing text. Script and Step document the fields; GET / serves the
// same as a page. A script that cannot be read is refused with status 400.
//
// # A small web
//
// GET /search?q=…&format=json answers as SearXNG does, with made-up pages that
// GET /pages/{page} serves; GET /w/api.php finds them as MediaWiki does.
//
// # Models
//
// everloop-demo is the demonstration. everloop-demo-echo always answers with
// the request it received. everloop-demo-small is the demonstration with a
// context window of 8,000 tokens, beyond which it refuses as real servers do.
// All of them follow scripts. everloop-demo-speech transcribes recordings: POST
// /v1/audio/transcriptions gives the text that the samples of a WAV file spell, or says
// how long the recording is. A script in that text orders faults: the first step's
// status, fail_times, first_delay_ms and hold.
package mock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"everloop/companions/edge"
	"everloop/internal/clients"
	"everloop/internal/hosts"
	"everloop/internal/release"
)

// Ids of the models.
const (
	DemoModel  = "everloop-demo"
	EchoModel  = "everloop-demo-echo"
	SmallModel = "everloop-demo-small"

	SpeechModel = "everloop-demo-speech"
)

// DefaultPace is the pause between two words that reads like a real model.
const DefaultPace = 18 * time.Millisecond

const (
	maxBody      = 32 << 20  // bytes of one request
	maxBodies    = 512 << 20 // bytes of all requests at once
	drainTimeout = 5 * time.Second
	connections  = 4000 // of one client address: a gateway has one for each model call
)

// Config of the service. The zero value is for tests: no pauses.
type Config struct {
	// Pace is the pause between two words of the demonstration; 0: none.
	// Scripts set their own pauses and ignore it.
	Pace time.Duration
	// OpenControl lets other machines use /control/. Its log holds what users
	// wrote, so by default only this machine may.
	OpenControl bool
	// KeepRequests keeps the last requests, prompts included, for tests.
	KeepRequests bool
	// Hosts are the names by which clients reach the service besides localhost and IP
	// addresses.
	Hosts hosts.List
	// Connections are those that one client address may have open; 0: 4000.
	Connections int
	BodyStall   time.Duration // silence after which a body is given up; 0: 1 min
	Bodies      int64         // bytes of all requests at once; 0: 512 MiB
	Log         *slog.Logger  // nil: nothing is logged
}

// Service is the mock service.
type Service struct {
	cfg      Config
	log      *slog.Logger
	requests *requestLog
	failures *counters
	held     *gate
	mux      *http.ServeMux
	bodies   *edge.Bodies
}

// New makes the service; it does not listen.
func New(cfg Config) *Service {
	s := &Service{
		cfg: cfg, log: cfg.Log,
		requests: newRequestLog(cfg.KeepRequests), failures: newCounters(), held: newGate(),
		mux:    http.NewServeMux(),
		bodies: edge.NewBodies(maxBody, cmp.Or(cfg.Bodies, maxBodies), cmp.Or(cfg.BodyStall, edge.BodyStall)),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}

	s.routes()

	return s
}

// Handler serves the whole service.
func (s *Service) Handler() http.Handler { return s.checkHost(s.mux) }

// checkHost rejects pages whose name was made to point at this machine.
func (s *Service) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edge.Await(w, r, cmp.Or(s.cfg.BodyStall, edge.BodyStall))
		w.Header().Set(release.Header, release.Version)
		w.Header().Set(edge.HeaderRequestID, rand.Text())

		if !s.cfg.Hosts.Allows(r.Host) {
			writeError(w, &apiError{
				Status: http.StatusForbidden, Type: "invalid_request_error", Code: "host_not_allowed",
				Message: "this host name is not allowed: add it to ALLOWED_HOSTS",
			})

			return
		}

		next.ServeHTTP(w, r)
	})
}

// Serve serves on a listener, which it closes, until the context ends, then lets open
// answers finish for a few seconds. It returns nil after an orderly end.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}

	bound := clients.NewConnections(cmp.Or(s.cfg.Connections, connections), nil)

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(bound.Listen(listener, clients.Refusal)) }()

	s.log.Info("mock service listens", "addr", listener.Addr().String(), "model", DemoModel)

	select {
	case err := <-failed:
		return fmt.Errorf("mock service: %w", err)
	case <-ctx.Done():
	}

	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()

	s.held.close()

	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // the answers that did not end in time are cut
	}

	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("mock service: %w", err)
	}

	return nil
}

func (s *Service) routes() {
	s.mux.HandleFunc("GET /{$}", servePage)
	s.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.mux.HandleFunc("GET /v1/models", serveModels)
	s.mux.HandleFunc("GET /v1/models/{id}", serveModel)
	s.mux.HandleFunc("POST /v1/chat/completions", s.complete)
	s.mux.HandleFunc("POST /v1/audio/transcriptions", s.transcribe)
	s.mux.HandleFunc("GET /search", serveSearch)
	s.mux.HandleFunc("GET /pages/{page}", serveWebPage)
	s.mux.HandleFunc("GET /w/api.php", serveWiki)
	s.mux.HandleFunc("GET /control/requests", s.local(s.listRequests))
	s.mux.HandleFunc("DELETE /control/requests", s.local(s.clearRequests))
	s.mux.HandleFunc("POST /control/release", s.local(s.release))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		allowed := strings.Join(edge.Allowed(s.mux, r), ", ")
		if allowed == "" {
			writeError(w, notFound("route_not_found", "there is no "+r.Method+" "+r.URL.Path+" here"))
			return
		}

		w.Header().Set("Allow", allowed)
		writeError(w, &apiError{
			Status: http.StatusMethodNotAllowed, Type: "invalid_request_error", Code: "method_not_allowed",
			Message: "this path takes " + allowed + " only",
		})
	})
}

// complete answers one chat-completion request.
func (s *Service) complete(w http.ResponseWriter, r *http.Request) {
	in := s.bodies.Open(w, r)
	defer in.Release()

	body, err := io.ReadAll(in)
	if err != nil {
		writeError(w, unreadable(err))
		return
	}

	entry := s.requests.begin(body)
	outcome := s.answer(w, r, body, entry)
	s.requests.end(entry, outcome)

	if outcome == outcomeCut {
		panic(http.ErrAbortHandler) // net/http's way to break the connection
	}
}

// answer decides and sends, and gives the outcome for the log.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, body []byte, entry *Request) string {
	req, fault := parseRequest(body)
	if fault == nil {
		s.requests.describe(entry, req)

		var plan plan
		if plan, fault = decide(req); fault == nil {
			return s.perform(w, r, req, plan)
		}
	}

	writeError(w, fault)

	return fmt.Sprintf("status %d", fault.Status)
}
