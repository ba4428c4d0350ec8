// Package mock is a scripted model server with the chat-completions interface. Without a
// configured model it shows a first user what an agent does, and states in every conversation
// that it is a script. Tests and benchmarks order its answers, faults included.
//
// The package does not depend on the agent's code or on sessions. An answer follows from the
// messages of its request, so a restart changes nothing. The memory holds only the counters
// of fail_times, held streams and, if enabled, a log of requests.
//
// # Scripts
//
// The last user message can contain a script:
//
//	[[script]]{"steps": [{"text": "hello", "calls": [{"name": "Bash", "arguments": {"command": "true"}}]}]}[[/script]]
//
// Step k answers the k-th model call after that message; a closing text follows the last
// step. Script and Step document the fields, and GET / serves them as a page. An invalid
// script is rejected with status 400.
//
// # Search
//
// GET /search?q=…&format=json returns made-up pages in the format of SearXNG,
// GET /pages/{page} serves them, and GET /w/api.php finds them as MediaWiki does.
//
// # Models
//
// everloop-demo is the demonstration. everloop-demo-echo returns the request that it
// received. everloop-demo-small is the demonstration with a context window of 8,000 tokens;
// it rejects longer prompts. All of them follow scripts. everloop-demo-speech transcribes
// recordings: POST /v1/audio/transcriptions returns the text that the samples of a WAV file
// spell, or a description of the recording. The first step of a script in that text applies
// with its status, fail_times, first_delay_ms and hold.
package mock

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"everloop/companions/edge"
	"everloop/internal/hosts"
)

// DefaultPace is the pause between two words that reads like a real model.
const DefaultPace = 18 * time.Millisecond

const (
	maxBody        = 32 << 20  // bytes of one request
	maxBodies      = 512 << 20 // bytes of all concurrent requests
	maxConnections = 4000      // a gateway has one for each model call
)

// Config configures a Service. The zero value is for tests: no pauses.
type Config struct {
	// Pace is the pause between two words of the demonstration. Scripts set their own pauses.
	Pace time.Duration
	// OpenControl opens /control/ to other machines. Its log contains what users wrote.
	OpenControl bool
	// KeepRequests stores the last requests in memory, including prompts, for tests.
	KeepRequests bool
	// Hosts are the names by which clients reach the service in addition to localhost and IP addresses.
	Hosts       hosts.List
	Connections int           // max open connections of one client address; 0: 4000
	BodyStall   time.Duration // max silence while a body is read; 0: 1 min
	Bodies      int64         // max bytes of all concurrent requests; 0: 512 MiB
	Log         *slog.Logger  // nil: no logs
}

// Service is the mock service.
type Service struct {
	cfg      Config
	requests *requestLog
	failures *counters
	held     *gate
	mux      *http.ServeMux
	bodies   *edge.Bodies
}

// New returns a new Service.
func New(cfg Config) *Service {
	cfg.BodyStall = cmp.Or(cfg.BodyStall, edge.BodyStall)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		cfg: cfg, requests: newRequestLog(cfg.KeepRequests), failures: newCounters(), held: newGate(), mux: http.NewServeMux(),
		bodies: edge.NewBodies(maxBody, cmp.Or(cfg.Bodies, maxBodies), cfg.BodyStall),
	}
	s.routes()
	return s
}

// Handler returns the handler of all routes.
func (s *Service) Handler() http.Handler { return s.edge().Guarded() }

// Serve serves on listener until ctx ends, then waits a few seconds for open answers. It closes
// the listener.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, s.held.close)()
	return s.edge().Serve(ctx, listener)
}

func (s *Service) edge() edge.Service {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // held streams last as long as their client
		edge.Await(w, r, s.cfg.BodyStall)
		s.mux.ServeHTTP(w, r)
	})
	return edge.Service{
		Name: "mock", Handler: handler, Hosts: s.cfg.Hosts, Log: s.cfg.Log,
		Connections: 2 * maxConnections, PerAddress: cmp.Or(s.cfg.Connections, maxConnections),
	}
}

//go:embed page.html
var page []byte

func (s *Service) routes() {
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	s.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		edge.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
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
			writeError(w, invalid(http.StatusNotFound, "route_not_found", "no route for "+r.Method+" "+r.URL.Path))
			return
		}

		w.Header().Set("Allow", allowed)
		writeError(w, invalid(http.StatusMethodNotAllowed, "method_not_allowed", "method must be one of "+allowed))
	})
}

// complete handles a chat completion.
func (s *Service) complete(w http.ResponseWriter, r *http.Request) {
	in := s.bodies.Open(w, r)
	defer in.Release()

	body, err := io.ReadAll(in)
	if err != nil {
		writeError(w, bodyError(err))
		return
	}

	entry := s.requests.start(body)
	outcome := s.answer(w, r, body, entry)
	s.requests.finish(entry, outcome)

	if outcome == outcomeCut {
		panic(http.ErrAbortHandler) // net/http then closes the connection
	}
}

// answer sends the answer and returns the outcome for the log.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, body []byte, entry *Request) string {
	req, fault := parseRequest(body)
	if fault == nil {
		s.requests.describe(entry, req)
		var p plan
		if p, fault = decide(req); fault == nil {
			return s.perform(w, r, req, p)
		}
	}
	return refuse(w, fault)
}

func refuse(w http.ResponseWriter, fault *apiError) (outcome string) {
	writeError(w, fault)
	return fmt.Sprintf("status %d", fault.Status)
}
