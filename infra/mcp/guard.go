package mcp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// HTTP gives the ways out to servers that are reached by HTTP.
type HTTP interface {
	// Transport is the way out for a server. A trusted one, made by an
	// administrator, may be on the service's own network; others may not.
	Transport(trusted bool) http.RoundTripper
}

// Guard is the HTTP of the service's machine. Where an untrusted server's name
// leads is looked at when the connection is made, not before, so that a name
// cannot change its mind in between.
type Guard struct {
	open, guarded http.RoundTripper
}

// NewGuard makes a Guard. Allowed are hosts ("host" or "host:port") that
// untrusted servers may be on although their addresses are private.
func NewGuard(allowed []string) *Guard {
	open := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	public := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return onlyPublic(address)
	}}
	return &Guard{
		open: way(open.DialContext),
		guarded: way(func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(address)
			if slices.Contains(allowed, host) || slices.Contains(allowed, address) {
				return open.DialContext(ctx, network, address)
			}
			return public.DialContext(ctx, network, address)
		}),
	}
}

func way(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		// No proxy: it would look up names and connect in our place.
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

// reserved are the blocks of public-looking addresses that are not public.
var reserved = func() []netip.Prefix {
	var out []netip.Prefix
	for block := range strings.FieldsSeq(`0.0.0.0/8 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24
		203.0.113.0/24 240.0.0.0/4 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 fec0::/10`) {
		out = append(out, netip.MustParsePrefix(block))
	}
	return out
}()

// onlyPublic refuses addresses that are not on the public Internet.
func onlyPublic(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %s is not understood", address)
	}
	ip := at.Addr().Unmap().WithZone("")
	public := ip.IsGlobalUnicast() && !ip.IsPrivate() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() &&
		!slices.ContainsFunc(reserved, func(block netip.Prefix) bool { return block.Contains(ip) })
	if !public {
		return fmt.Errorf("servers of users may not be on this network")
	}
	return nil
}
