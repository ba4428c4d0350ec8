package openid

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"everloop/companions/identity/tokens"
)

// Client is a program that signs people in by the OpenID provider. It is a public client
// without a secret: its redirect URIs and PKCE protect its codes. It receives the requested
// rights, by default all except administration, after the person has consented.
type Client struct {
	ID           string
	RedirectURIs []string // complete URIs, compared byte by byte
	SignOutURIs  []string // allowed redirects after signing out
	FirstParty   bool     // a front end of the product: no consent required
}

// NewClient returns a client with these redirect URIs. After signing out it allows redirects to
// the root of each URI's site.
func NewClient(id string, redirectURIs ...string) (Client, error) {
	c := Client{ID: id, RedirectURIs: redirectURIs}

	for _, uri := range redirectURIs {
		if root := originOf(uri) + "/"; !slices.Contains(c.SignOutURIs, root) {
			c.SignOutURIs = append(c.SignOutURIs, root)
		}
	}

	return c, c.check()
}

const maxURI = 1024

// check returns an error for a client that cannot be registered.
func (c Client) check() error {
	if c.ID == "" || len(c.ID) > 64 || strings.ContainsFunc(c.ID, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	}) {
		return fmt.Errorf("client id %q must have 1 to 64 letters, digits, -, _ or .", c.ID)
	}

	if c.ID == tokens.Audience {
		return fmt.Errorf("client id %q is the audience of access tokens: choose another", c.ID)
	}

	if len(c.RedirectURIs) == 0 {
		return fmt.Errorf("client %s has no redirect URI", c.ID)
	}

	for _, uri := range slices.Concat(c.RedirectURIs, c.SignOutURIs) {
		u, err := url.Parse(uri)
		if err != nil || u.Host == "" || u.Fragment != "" || u.User != nil || len(uri) > maxURI || strings.ContainsAny(uri, "*\\ ") {
			return fmt.Errorf("client %s: %q is not a complete URI without a fragment", c.ID, uri)
		}

		if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
			return fmt.Errorf("client %s: %q must be https, or http on this machine", c.ID, uri)
		}
	}

	return nil
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Origins returns the sites of clients that receive codes by redirect.
func Origins(clients []Client) []string {
	var out []string

	for _, c := range clients {
		for _, uri := range c.RedirectURIs {
			out = append(out, originOf(uri))
		}
	}

	return out
}

// originOf returns the origin of a URI; "" of one without.
func originOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return ""
	}

	return u.Scheme + "://" + u.Host
}

// registered implements the library's interface for a client.
type registered struct{ Client }

func (c registered) GetID() string                     { return c.ID }
func (c registered) RedirectURIs() []string            { return c.Client.RedirectURIs }
func (c registered) PostLogoutRedirectURIs() []string  { return c.SignOutURIs }
func (registered) ApplicationType() op.ApplicationType { return op.ApplicationTypeUserAgent }
func (registered) AuthMethod() oidc.AuthMethod         { return oidc.AuthMethodNone }
func (registered) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (registered) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeJWT }
func (registered) IDTokenLifetime() time.Duration       { return 0 } // the provider decides
func (registered) LoginURL(string) string               { return "/" }
func (registered) IsScopeAllowed(scope string) bool     { return isRight(scope) }
func (registered) IDTokenUserinfoClaimsAssertion() bool { return false }
func (registered) ClockSkew() time.Duration             { return 0 }

func (registered) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken}
}

// DevMode allows http redirect URIs; check has allowed only URIs of this machine.
func (registered) DevMode() bool { return true }

func (registered) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}

func (registered) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
