// Package web fetches pages of the Internet for the agent: a model, or a page that it read, can
// name any address, so every connection is checked when it is made, against the resolved address.
// It must not depend on the purpose of a fetch.
package web

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"everloop/domain"
	"everloop/infra/netguard"
)

// Defaults of a Config.
const (
	DefaultTimeout       = 30 * time.Second
	DefaultHeaderTimeout = 15 * time.Second
	DefaultMaxBody       = 5 << 20
)

const (
	connectTimeout  = 10 * time.Second
	maxRedirects    = 5
	maxHeader       = 256 << 10 // maximum header of a response, in bytes
	maxConversions  = 4         // maximum concurrent conversions to Markdown
	defaultIdentity = "Everloop/1.0 (WebFetch)"
)

// Config of a Client. The zero value allows the public Internet only.
type Config struct {
	Allow []string // exceptions to the guard, see netguard.New
	Own   []string // addresses on which this service listens, see netguard.New

	Timeout       time.Duration // of a whole fetch, including redirects; 0: DefaultTimeout
	HeaderTimeout time.Duration // until the response starts; 0: DefaultHeaderTimeout
	MaxBody       int64         // maximum decompressed body of a response, in bytes; 0: DefaultMaxBody
	Identity      string        // the User-Agent header
	Resolver      *net.Resolver // nil: the system's
}

// Client fetches pages. It has no connection pool, no cookies and no cache, uses no proxy, and is
// safe for concurrent use.
type Client struct {
	cfg        Config
	guard      *netguard.Guard
	http       *http.Client
	converting chan struct{}
}

// New returns a new client, or an error for an invalid Allow or Own.
func New(cfg Config) (*Client, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.HeaderTimeout = cmp.Or(cfg.HeaderTimeout, DefaultHeaderTimeout)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.Identity = cmp.Or(cfg.Identity, defaultIdentity)
	c := &Client{cfg: cfg, converting: make(chan struct{}, maxConversions)}

	var err error
	if c.guard, err = netguard.New(cfg.Allow, cfg.Own); err != nil {
		return nil, err
	}

	transport := &http.Transport{
		Proxy:                  nil, // a proxy would bypass the guard
		DialContext:            c.dial,
		DisableKeepAlives:      true,
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  cfg.HeaderTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	c.http = &http.Client{Transport: bounded{c, transport}, CheckRedirect: c.redirect}

	return c, nil
}

// HTTP returns the guarded client for other code that reads from the web: it allows GET and HEAD
// requests to the addresses of Fetch, with the same timeout, and a response longer than MaxBody
// ends with an error.
func (c *Client) HTTP() *http.Client {
	return &http.Client{
		Transport: c.http.Transport, CheckRedirect: c.http.CheckRedirect, Timeout: c.cfg.Timeout,
	}
}

// redirect limits the hops and rejects redirects to another host: that host has its own rules, by
// which the model can request it. The target of a hop is checked when it is sent and dialled,
// like any request.
func (c *Client) redirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return refusef("the page redirects more than %d times", maxRedirects)
	}

	if via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return refusef("the page redirects from https to %s, which is not followed", next.URL.Scheme)
	}

	if _, _, err := c.Destination(next.URL.String()); err != nil {
		return err
	}

	next.Header.Del("Referer") // the URL of the request is private

	if admit, ok := next.Context().Value(admitKey{}).(Admit); ok {
		return c.admitted(next.URL.String(), admit)
	}

	follow, _ := next.Context().Value(followKey{}).(func(string) bool)
	if !sameHost(via[len(via)-1].URL, next.URL) {
		return redirected("another host", next.URL)
	}

	if follow != nil && !follow(next.URL.String()) {
		return redirected("an address that a permission rule is about", next.URL)
	}

	return nil
}

// maxRedirectTarget is the maximum length of a redirect's URL in messages, in bytes.
const maxRedirectTarget = 2000

// redirected returns the refusal with the target of a redirect.
func redirected(where string, to *url.URL) error {
	address := to.String()
	if len(address) > maxRedirectTarget {
		return refusef("the page redirects to %s, %s, with an address that is too long", where, to.Host)
	}

	return refusef("the page redirects to %s: %s . Call WebFetch with that address if it is needed", where, address)
}

// followKey is the context key of the function that decides about a redirect within the host.
type followKey struct{}

// pathKey is the context key of a connection's path: connections are not reused, so each has one.
type pathKey struct{}

func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}

	path, _ := ctx.Value(pathKey{}).(string)
	dialer := net.Dialer{Timeout: connectTimeout, Resolver: c.cfg.Resolver, Control: c.guard.Control(host, path)}

	conn, err := dialer.DialContext(ctx, network, addr)
	if refusal, ok := errors.AsType[*netguard.Refusal](err); ok {
		return nil, refusef("%s", refusal)
	}

	return conn, err
}

// refusef returns a refusal that the model sees.
func refusef(format string, args ...any) error {
	return domain.Newf(domain.Forbidden, "web_refused", format, args...)
}
