// Package openid is the OpenID provider of the identity service, with which front ends sign
// people in. It must not depend on passwords, nor on how people authenticate.
package openid

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-jose/go-jose/v4"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/cors"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"everloop/companions/edge"
	"everloop/companions/identity/tokens"
	"everloop/infra/secrets"
)

// Paths of the OpenID provider.
const (
	AuthorizePath  = "/oauth/authorize"
	TokenPath      = "/oauth/token" //nolint:gosec // a path, no secret
	UserinfoPath   = "/oauth/userinfo"
	RevokePath     = "/oauth/revoke"
	EndSessionPath = "/oauth/end_session"
	ConsentPath    = "/consent" // the consent page, which the caller serves
)

// Config configures the provider. All fields except AdminSecondFactor are required.
type Config struct {
	DB      *pgxpool.Pool
	Box     *secrets.Box
	Keys    *tokens.Keys
	Issuer  string
	Clients []Client
	Log     *slog.Logger

	AdminSecondFactor bool // sessions of administrators without a second factor are invalid

	SessionTTL    time.Duration                             // lifetime of a client's session since its last refresh
	EmptyCookies  []*http.Cookie                            // delete the browser's session
	SessionCookie func(*http.Request) (*http.Cookie, error) // reads the browser's session
}

// Provider is the OpenID provider of the service: authorization code flow with PKCE, for public
// clients. The library routes and decodes requests and checks them against the specifications;
// codes and tokens belong to the service's own sessions.
type Provider struct {
	op.UnimplementedServer
	cfg     Config
	db      *pgxpool.Pool
	clients map[string]Client
}

// New returns a new provider. A client that cannot be registered is an error.
func New(cfg Config) (*Provider, error) {
	p := &Provider{cfg: cfg, db: cfg.DB, clients: map[string]Client{}}
	for _, c := range cfg.Clients {
		if err := c.check(); err != nil {
			return nil, err
		}

		if _, twice := p.clients[c.ID]; twice {
			return nil, errors.New("client " + c.ID + " is registered twice")
		}

		p.clients[c.ID] = c
	}

	return p, nil
}

// Handler returns the handler of the endpoints below /oauth. Pages of the clients can call them
// from their own origins, without cookies.
func (p *Provider) Handler() http.Handler {
	at := op.NewEndpoint

	served := op.RegisterServer(p, op.Endpoints{
		Token: at(TokenPath), Userinfo: at(UserinfoPath), Revocation: at(RevokePath), EndSession: at(EndSessionPath),
	}, op.WithServerCORSOptions(&cors.Options{
		AllowOriginFunc: p.allowsOrigin,
		AllowedMethods:  []string{http.MethodGet, http.MethodPost},
		AllowedHeaders:  []string{"Authorization", "Content-Type"},
		MaxAge:          600,
	}), op.WithFallbackLogger(quiet), op.WithSetRouter(func(router chi.Router) { router.HandleFunc(AuthorizePath, p.serveAuthorize) }))

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.ServeHTTP(w, withAddress(r))
	})
}

// quiet discards the library's logs of invalid client requests, which contain parts of the
// requests. Errors of this service are logged by protocolError.
var quiet = slog.New(slog.DiscardHandler)

func (p *Provider) allowsOrigin(origin string) bool {
	for _, c := range p.clients {
		if slices.ContainsFunc(c.RedirectURIs, func(uri string) bool { return originOf(uri) == origin }) {
			return true
		}
	}

	return false
}

// Scopes returns the scopes that clients can request.
func Scopes() []string {
	return append([]string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail, oidc.ScopeOfflineAccess}, rightScopes()...)
}

// AdminScope is the scope of administration, which a client receives only on request.
const AdminScope = "admin"

// rightScopes returns the scopes that grant access to a part of the agent, by the agent's
// names.
func rightScopes() []string {
	return []string{
		"sessions:read",
		"sessions:write",
		"chat",
		"files",
		"schedules",
		"triggers",
		"solutions",
		"workspaces",
		"skills",
		"skills:write",
		AdminScope,
	}
}

func isRight(scope string) bool { return slices.Contains(rightScopes(), scope) }

// everythingElse represents in consents the rights of a request that names none.
const everythingElse = "everloop"

// withRights adds everythingElse to scopes that name no right, which grant all rights except
// administration.
func withRights(scopes []string) []string {
	if slices.ContainsFunc(scopes, isRight) || slices.Contains(scopes, everythingElse) {
		return scopes
	}

	return append(slices.Clone(scopes), everythingElse)
}

// rights returns the scopes of the agent that a token of a client is restricted to: the
// requested ones, by default all except administration. Front ends of the product are not
// restricted.
func (p *Provider) rights(clientID string, scopes []string) []string {
	if p.clients[clientID].FirstParty {
		return nil
	}

	if !slices.ContainsFunc(scopes, isRight) {
		scopes = slices.DeleteFunc(rightScopes(), func(scope string) bool { return scope == AdminScope })
	}

	return slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !isRight(scope) })
}

type addressKey struct{}

// withAddress adds the client's address to the context of a request.
func withAddress(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), addressKey{}, edge.Client(r).String()))
}

// addressOf returns the client's address, for the audit log.
func addressOf(ctx context.Context) map[string]string {
	address, _ := ctx.Value(addressKey{}).(string)
	return map[string]string{"address": address}
}

// protocolError converts an error to the library's form. An error that is neither the client's
// nor the protocol's is logged, and the response contains no detail.
func (p *Provider) protocolError(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*oidc.Error](err); ok {
		return known
	}

	if known, ok := errors.AsType[op.StatusError](err); ok {
		return known
	}

	if ctx.Err() == nil {
		p.cfg.Log.Error("failed to answer a request of an OpenID client", "error", err)
	}

	return op.NewStatusError(oidc.ErrServerError().WithDescription("the identity service is not available, retry in some seconds"),
		http.StatusServiceUnavailable)
}

// VerifyClient implements op.Server. All clients are public: a secret is rejected, so that no
// client relies on an unchecked secret.
func (p *Provider) VerifyClient(_ context.Context, r *op.Request[op.ClientCredentials]) (op.Client, error) {
	c, known := p.clients[r.Data.ClientID]
	if !known || r.Data.ClientSecret != "" || r.Data.ClientAssertion != "" {
		return nil, op.NewStatusError(oidc.ErrInvalidClient().WithDescription("no public client of this id is registered"),
			http.StatusUnauthorized)
	}

	return registered{c}, nil
}

// Describe serves the discovery document.
func (p *Provider) Describe(w http.ResponseWriter) {
	w.Header().Set("Access-Control-Allow-Origin", "*") // public: no credentials are read

	at := func(path string) string { return strings.TrimRight(p.cfg.Issuer, "/") + path }
	none := []oidc.AuthMethod{oidc.AuthMethodNone}
	edge.WriteJSON(w, http.StatusOK, struct {
		oidc.DiscoveryConfiguration
		IssuerInAnswer bool `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	}{oidc.DiscoveryConfiguration{
		Issuer: p.cfg.Issuer, JwksURI: at("/.well-known/jwks.json"),
		AuthorizationEndpoint: at(AuthorizePath), TokenEndpoint: at(TokenPath), UserinfoEndpoint: at(UserinfoPath),
		RevocationEndpoint: at(RevokePath), EndSessionEndpoint: at(EndSessionPath),
		ScopesSupported:                        Scopes(),
		ResponseTypesSupported:                 []string{string(oidc.ResponseTypeCode)},
		ResponseModesSupported:                 []string{string(oidc.ResponseModeQuery), string(oidc.ResponseModeFragment)},
		GrantTypesSupported:                    registered{}.GrantTypes(),
		SubjectTypesSupported:                  []string{"public"},
		IDTokenSigningAlgValuesSupported:       []string{string(jose.EdDSA)},
		TokenEndpointAuthMethodsSupported:      none,
		RevocationEndpointAuthMethodsSupported: none,
		CodeChallengeMethodsSupported:          []oidc.CodeChallengeMethod{oidc.CodeChallengeMethodS256},
		ClaimsSupported: []string{
			"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "azp", "amr", "sid", "name", "preferred_username", "email",
		},
	}, true})
}
