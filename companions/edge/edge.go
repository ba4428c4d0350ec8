// Package edge contains the HTTP edge of the services next to the agent: allowed hosts, time
// limits of requests, the error format, and graceful shutdown. It must not depend on the
// functions of a service.
package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"everloop/internal/clients"
	"everloop/internal/hosts"
	"everloop/internal/release"
)

// Bounds of a listener.
const (
	connections = 512 // default maximum of open connections; further ones wait in the backlog
	perAddress  = 128 // default maximum of one client; further ones are rejected
	headerTime  = 10 * time.Second
	headerBytes = 64 << 10
	idleTime    = 2 * time.Minute
	drainTime   = 5 * time.Second
	requestTime = 2 * time.Minute // unless the handler extends it
)

// Service serves a handler on a listener.
type Service struct {
	Name    string
	Handler http.Handler
	Hosts   hosts.List // in addition to localhost and IP addresses
	Log     *slog.Logger

	Connections int // max open connections; 0: 512
	PerAddress  int // of one client's address; 0: 128
	// Proxies are the proxies whose X-Forwarded-For names the client: their open requests count
	// for the client, instead of their connections.
	Proxies clients.Proxies
}

// Serve handles requests until ctx ends, then waits some seconds for open ones. It closes the
// listener.
func (s Service) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Guarded(), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		ConnContext: withConn,
	}
	all := netutil.LimitListener(listener, cmp.Or(s.Connections, connections))
	bound := clients.NewConnections(cmp.Or(s.PerAddress, perAddress), s.Proxies).Listen(all, clients.Refusal)

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(bound) }()

	s.Log.Info("service started", "service", s.Name, "addr", listener.Addr().String())

	select {
	case err := <-failed:
		return fmt.Errorf("%s: %w", s.Name, err)
	case <-ctx.Done():
	}

	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()

	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // aborts requests that did not end in time
	}

	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", s.Name, err)
	}

	return nil
}

// Guarded returns the handler as Serve uses it: it assigns request ids, rejects unknown hosts,
// bounds the time of a request, and responds to a panic with a 500.
func (s Service) Guarded() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Extend(w, requestTime)

		header := w.Header()
		id := identify(header, r.Header.Get(HeaderRequestID))
		header.Set(release.Header, release.Version)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
		header.Set("Referrer-Policy", "no-referrer")

		if !s.Hosts.Allows(r.Host) {
			Write(w, Refuse(http.StatusForbidden, "host_not_allowed", "this host name is not allowed: add it to ALLOWED_HOSTS"))
			return
		}

		client := s.Proxies.Client(peer(r), r.Header.Values("X-Forwarded-For")...)
		r = r.WithContext(context.WithValue(r.Context(), clientKey{}, client))

		if conn, ok := r.Context().Value(connKey{}).(*clients.Conn); ok {
			if !conn.Begin(client) {
				Write(w, Refuse(http.StatusTooManyRequests, "too_many_connections", "too many requests of this address are under way"))
				return
			}
			defer conn.Idle()
		}

		defer func() {
			p := recover()
			if p == nil {
				return
			}

			if p == http.ErrAbortHandler { //nolint:errorlint // like net/http compares it
				panic(p)
			}

			s.Log.Error("failed to answer a request: panic", "service", s.Name, "method", r.Method, "request_id", id,
				"panic", fmt.Sprint(p))
			Write(w, Refuse(http.StatusInternalServerError, "internal", "internal error"))
		}()

		s.Handler.ServeHTTP(w, r)
	})
}

// Extend sets the time limit for reading and answering the rest of a request. Both use one
// deadline: net/http cancels a request whose read deadline expires while it is handled.
func Extend(w http.ResponseWriter, within time.Duration) {
	control := http.NewResponseController(w)
	until := time.Now().Add(within)
	_ = control.SetReadDeadline(until) // fails only for recorders of tests
	_ = control.SetWriteDeadline(until)
}
