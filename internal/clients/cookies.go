package clients

import (
	"net/http"
	"net/netip"
	"strings"
)

const cookiePrefix = "__Host-"

// CookieName returns the name of a cookie for one scheme. Over HTTPS it has the prefix
// __Host-: browsers take such a cookie from the host itself only, so that no page of a
// subdomain and no page over HTTP plants one. It must be Secure, for the path / and without
// a domain.
func CookieName(name string, https bool) string {
	if https {
		return cookiePrefix + name
	}

	return name
}

// ReadCookie returns the value of a cookie that another service has set, which may know
// better than this one that the browser came over HTTPS: a browser sends the name with the
// prefix only then. Where HTTPS is certain, no other name counts.
func ReadCookie(name string, https bool, value func(name string) string) string {
	if found := value(CookieName(name, true)); found != "" || https {
		return found
	}

	return value(name)
}

// HTTPS reports whether the browser of a request came over HTTPS: to this service, or to a
// trusted proxy.
func (p Proxies) HTTPS(r *http.Request) bool {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero address is not trusted

	return r.TLS != nil || p.ForwardedHTTPS(peer.Addr(), r.Header.Get("X-Forwarded-Proto"))
}

// ForwardedHTTPS reports whether a peer is a trusted proxy that a browser reached over HTTPS.
func (p Proxies) ForwardedHTTPS(peer netip.Addr, proto string) bool {
	return p.Trusts(peer) && strings.EqualFold(proto, "https")
}
