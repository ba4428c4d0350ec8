package mcp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"everloop/infra/netguard"
)

const (
	dialTime  = 10 * time.Second
	keepAlive = 30 * time.Second
)

// HTTP provides the transports to HTTP servers.
type HTTP interface {
	// Transport returns the transport to a server. A trusted server, created by an administrator,
	// can be on the service's own network; others cannot.
	Transport(trusted bool) http.RoundTripper
}

// Guard is the HTTP of the service's machine. It checks connections to untrusted servers by the
// rules of WebFetch.
type Guard struct {
	open, guarded http.RoundTripper
}

// errNotPublic replaces the guard's error, which contains the server's host.
var errNotPublic = errors.New("servers of users may not be on this network or port")

// NewGuard returns a new Guard that applies the checks to untrusted servers.
func NewGuard(checks *netguard.Guard) *Guard {
	open := &net.Dialer{Timeout: dialTime, KeepAlive: keepAlive}

	return &Guard{
		open: way(open.DialContext),
		guarded: way(func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			// Requests with different paths share a connection, so it has no path.
			dialer := &net.Dialer{Timeout: dialTime, KeepAlive: keepAlive, Control: checks.Control(host, "")}

			conn, err := dialer.DialContext(ctx, network, address)
			if _, refused := errors.AsType[*netguard.Refusal](err); refused {
				return nil, &net.OpError{Op: "dial", Net: network, Err: errNotPublic}
			}

			return conn, err
		}),
	}
}

func way(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		// No proxy: it would resolve names and connect instead of this process.
		DialContext: dial, ForceAttemptHTTP2: true, MaxIdleConns: 100, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
}

// Transport implements HTTP.
func (g *Guard) Transport(trusted bool) http.RoundTripper {
	if trusted {
		return g.open
	}

	return g.guarded
}
