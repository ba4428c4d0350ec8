// Package desktop serves the front end for people, and the agent's interface under the same
// origin, so that a browser needs no access to other origins. It must not depend on the content
// of the front end.
package desktop

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"

	"everloop/companions/edge"
	"everloop/internal/hosts"
)

// Bounds of the open connections: each page has one socket open, and makes a few concurrent
// requests. Many people can share one address.
const (
	connections = 8192
	perAddress  = 4000
)

// Config configures the service. All fields except Identity, Own and Hosts are required.
type Config struct {
	Agent    *url.URL // its interface is served below /api and /socket.io
	Identity *url.URL // the identity service, below /api/v1/auth; nil: people sign in with API keys
	Own      *url.URL // return address for the identity service; nil: no sign-in by OpenID Connect
	Files    fs.FS    // the built front end, with index.html at its root
	Hosts    hosts.List
	Log      *slog.Logger
}

// Service is the desktop.
type Service struct {
	handler http.Handler
	cfg     Config
}

// New returns a new service.
func New(cfg Config) (*Service, error) {
	pages, err := openAssets(cfg.Files)
	if err != nil {
		return nil, err
	}

	agent := forward(cfg.Agent, edge.BodyStall, cfg.Log)
	mux := http.NewServeMux()
	mux.Handle("/api/", agent)
	mux.Handle("/socket.io/", agent)
	mux.Handle("/hooks/", agent) // the addresses of triggers
	mux.Handle("/apps/", agent)  // published apps, which the agent serves in a sandboxed origin

	people := identity(cfg)
	mux.Handle("/api/v1/auth/", people)
	mux.Handle("/oauth/token", people) // called by pages; browsers are redirected to the provider for the rest
	mux.Handle("/.well-known/openid-configuration", people)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		edge.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /desktop.json", cfg.describe)
	mux.Handle("/", pages)

	return &Service{handler: mux, cfg: cfg}, nil
}

// Serve handles requests until ctx ends. It closes the listener.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	service := edge.Service{
		Name: "desktop", Handler: s.handler, Hosts: s.cfg.Hosts, Connections: connections, PerAddress: perAddress, Log: s.cfg.Log,
	}

	return service.Serve(ctx, listener)
}

// description is the data that the front end needs before sign-in.
type description struct {
	SignIn []string `json:"sign_in"` // available ways, the preferred one first
}

func (c Config) describe(w http.ResponseWriter, r *http.Request) {
	ways := []string{"api_key"}

	switch {
	case c.Identity != nil && c.Own != nil && c.Own.Host == r.Host: // browsers return to this address only
		ways = []string{"password", "openid", "api_key"}
	case c.Identity != nil:
		ways = []string{"password", "api_key"}
	}

	w.Header().Set("Cache-Control", "no-store")
	edge.WriteJSON(w, http.StatusOK, description{SignIn: ways})
}

// identity forwards sign-ins. Its cookies are set for the front end's origin, and the agent
// accepts them.
func identity(cfg Config) http.Handler {
	if cfg.Identity == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			edge.Write(w, edge.Refuse(http.StatusNotFound, "identity_not_configured",
				"no identity service is configured: sign in with an API key, or set IDENTITY_URL"))
		})
	}

	return forward(cfg.Identity, edge.BodyStall, cfg.Log)
}
