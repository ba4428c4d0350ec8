package clients

import (
	"net/http"
	"net/netip"
	"strings"
)

const cookiePrefix = "__Host-"

// CookieName returns the name of a cookie for a scheme. Over HTTPS it has the prefix __Host-:
// browsers accept such a cookie from the host itself only, so that neither a page of a subdomain
// nor a page over HTTP can set it. It must be Secure, with the path / and without a domain.
func CookieName(name string, https bool) string {
	if https {
		return cookiePrefix + name
	}

	return name
}

// ReadCookie returns the value of a cookie that another service has set. Without HTTPS it also
// reads the prefixed name, because the other service may have detected HTTPS: browsers send that
// name over HTTPS only. With HTTPS, only the prefixed name is valid.
func ReadCookie(name string, https bool, value func(name string) string) string {
	if found := value(CookieName(name, true)); found != "" || https {
		return found
	}

	return value(name)
}

// HTTPS reports whether the browser of a request uses HTTPS: to this service, or to a trusted
// proxy.
func (p Proxies) HTTPS(r *http.Request) bool {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero address is not trusted

	return r.TLS != nil || p.ForwardedHTTPS(peer.Addr(), r.Header.Get("X-Forwarded-Proto"))
}

// ForwardedHTTPS reports whether a peer is a trusted proxy to which the browser uses HTTPS.
func (p Proxies) ForwardedHTTPS(peer netip.Addr, proto string) bool {
	return p.Trusts(peer) && strings.EqualFold(proto, "https")
}
