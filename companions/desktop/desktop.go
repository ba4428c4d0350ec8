// Package desktop serves the front end for people, and the agent's interface under the
// same origin, so that a browser needs no rights for other origins. It must not know what
// the front end shows.
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

// Bounds of the open connections: each page keeps a socket, and makes a few requests at
// once. Many people may come from one address.
const (
	connections = 8192
	perAddress  = 4000
)

// Config of the service. All fields but Identity, Own and Hosts are needed.
type Config struct {
	Agent    *url.URL // its interface is served below /api and /socket.io
	Identity *url.URL // the identity service, below /api/v1/auth; nil: people sign in with API keys
	Own      *url.URL // where the identity service sends browsers back to; nil: no sign-in by OpenID Connect
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
	mux.Handle("/apps/", agent) // published apps, which the agent sends without an origin of their own

	people := identity(cfg)
	mux.Handle("/api/v1/auth/", people)
	mux.Handle("/oauth/token", people) // of the OpenID provider, what pages call; browsers are led to the rest
	mux.Handle("/.well-known/openid-configuration", people)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		edge.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /desktop.json", cfg.describe)
	mux.Handle("/", pages)

	return &Service{handler: mux, cfg: cfg}, nil
}

// Serve answers requests until ctx ends. It closes the listener.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	service := edge.Service{
		Name: "desktop", Handler: s.handler, Hosts: s.cfg.Hosts, Connections: connections, PerAddress: perAddress, Log: s.cfg.Log,
	}

	return service.Serve(ctx, listener)
}

// description is what the front end must know before anybody has signed in.
type description struct {
	SignIn []string `json:"sign_in"` // ways that are possible, the preferred one first
}

func (c Config) describe(w http.ResponseWriter, r *http.Request) {
	ways := []string{"api_key"}

	switch {
	case c.Identity != nil && c.Own != nil && c.Own.Host == r.Host: // browsers come back to this address alone
		ways = []string{"password", "openid", "api_key"}
	case c.Identity != nil:
		ways = []string{"password", "api_key"}
	}

	w.Header().Set("Cache-Control", "no-store")
	edge.WriteJSON(w, http.StatusOK, description{SignIn: ways})
}

// identity forwards sign-ins. Its cookies become the front end's, which the agent accepts.
func identity(cfg Config) http.Handler {
	if cfg.Identity == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			edge.Write(w, edge.Refuse(http.StatusNotFound, "identity_not_configured",
				"no identity service is configured: sign in with an API key, or set IDENTITY_URL"))
		})
	}

	return forward(cfg.Identity, edge.BodyStall, cfg.Log)
}
