package edge

import (
	"context"
	"net"
	"net/http"
	"net/netip"
)

// clientKey and connKey are the keys of a request's context.
type (
	clientKey struct{}
	connKey   struct{}
)

// Client returns the client's address of a request, also behind trusted proxies.
func Client(r *http.Request) netip.Addr {
	if client, ok := r.Context().Value(clientKey{}).(netip.Addr); ok {
		return client
	}

	return peer(r)
}

// peer returns the remote address; the zero address is also a valid client.
func peer(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap()
}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}
