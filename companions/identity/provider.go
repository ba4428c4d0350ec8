package identity

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-jose/go-jose/v4"
	"github.com/rs/cors"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"everloop/companions/edge"
	"everloop/internal/clients"
)

// Paths of the OpenID provider.
const (
	authorizePath  = "/oauth/authorize"
	tokenPath      = "/oauth/token" //nolint:gosec // a path, no secret
	userinfoPath   = "/oauth/userinfo"
	revokePath     = "/oauth/revoke"
	endSessionPath = "/oauth/end_session"
)

// provider is the OpenID provider of the service: authorization code flow with PKCE, for
// public clients. The library routes requests, decodes them and checks what the protocols
// say of them; codes and tokens are those of the service's own sessions.
type provider struct {
	op.UnimplementedServer
	*Service
	clients map[string]Client
}

func newProvider(s *Service) (*provider, error) {
	p := &provider{Service: s, clients: map[string]Client{}}
	for _, c := range s.cfg.Clients {
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

// handler serves the endpoints below /oauth. Pages of the clients may call them from
// their own origins, without cookies.
func (p *provider) handler() http.Handler {
	at := op.NewEndpoint

	return op.RegisterServer(p, op.Endpoints{
		Token: at(tokenPath), Userinfo: at(userinfoPath), Revocation: at(revokePath), EndSession: at(endSessionPath),
	}, op.WithServerCORSOptions(&cors.Options{
		AllowOriginFunc: p.allowsOrigin,
		AllowedMethods:  []string{http.MethodGet, http.MethodPost},
		AllowedHeaders:  []string{"Authorization", "Content-Type"},
		MaxAge:          600,
	}), op.WithFallbackLogger(quiet), op.WithSetRouter(func(router chi.Router) { router.HandleFunc(authorizePath, p.serveAuthorize) }))
}

// quiet keeps the library from logging what clients do wrong, with parts of their requests.
// What this service cannot do is logged by protocolError.
var quiet = slog.New(slog.DiscardHandler)

func (p *provider) allowsOrigin(origin string) bool {
	for _, c := range p.clients {
		if slices.ContainsFunc(c.RedirectURIs, func(uri string) bool { return originOf(uri) == origin }) {
			return true
		}
	}

	return false
}

// protocol passes a request to the library. Failed ones of the endpoints that take secrets
// are counted as guesses of the client's address.
func (s *Service) protocol(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	r = r.WithContext(context.WithValue(r.Context(), addressKey{}, edge.Client(r).String()))

	watched := &statusWriter{ResponseWriter: w}
	if r.Method != http.MethodPost || r.URL.Path != tokenPath && r.URL.Path != revokePath {
		s.oidc.ServeHTTP(watched, r)
		return nil
	}

	if r.URL.RawQuery != "" { // it would be in logs of proxies
		return refuseGrant(w, http.StatusBadRequest, "invalid_request", "send the parameters in the body, not in the address")
	}

	allowances := []allowance{{"token " + clients.Network(edge.Client(r)).String(), s.cfg.AddressGuesses}}

	err := s.spendGuess(r.Context(), allowances)
	if f, refused := errors.AsType[*Fault](err); refused {
		w.Header().Set("Retry-After", seconds(f.RetryAfter))
		return refuseGrant(w, f.Status, "temporarily_unavailable", "too many wrong codes and tokens, retry later")
	}

	if err != nil {
		return err
	}

	s.oidc.ServeHTTP(watched, r)

	if watched.status >= 400 && watched.status < 500 {
		return nil
	}

	if err := s.returnGuess(context.WithoutCancel(r.Context()), allowances); err != nil {
		s.log.Warn("failed to restore a guess", "error", err) // the answer is sent already
	}

	return nil
}

// refuseGrant answers with an error in the form of OAuth.
func refuseGrant(w http.ResponseWriter, status int, code, description string) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)

	return json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
}

type addressKey struct{}

// addressOf is the client's address, for the audit log.
func addressOf(ctx context.Context) map[string]string {
	address, _ := ctx.Value(addressKey{}).(string)
	return map[string]string{"address": address}
}

// statusWriter remembers the status of an answer, and names the scheme of a 401.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}

	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// protocolError is an error of this service as the library shows it. What is neither a
// fault of the client nor of the protocol is logged and shown without detail.
func (p *provider) protocolError(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*oidc.Error](err); ok {
		return known
	}

	if known, ok := errors.AsType[op.StatusError](err); ok {
		return known
	}

	if ctx.Err() == nil {
		p.log.Error("failed to answer a request of an OpenID client", "error", err)
	}

	return op.NewStatusError(oidc.ErrServerError().WithDescription("the identity service is not available, retry in some seconds"),
		http.StatusServiceUnavailable)
}

// VerifyClient implements op.Server. All clients are public: a secret is refused, so that
// no client relies on one that is not checked.
func (p *provider) VerifyClient(_ context.Context, r *op.Request[op.ClientCredentials]) (op.Client, error) {
	c, known := p.clients[r.Data.ClientID]
	if !known || r.Data.ClientSecret != "" || r.Data.ClientAssertion != "" {
		return nil, op.NewStatusError(oidc.ErrInvalidClient().WithDescription("no public client of this id is registered"),
			http.StatusUnauthorized)
	}

	return registered{c}, nil
}

// discovery shows clients the endpoints, keys and abilities of the provider.
func (s *Service) discovery(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Access-Control-Allow-Origin", "*") // public, and no credential is looked at

	at := func(path string) string { return strings.TrimRight(s.cfg.Issuer, "/") + path }
	none := []oidc.AuthMethod{oidc.AuthMethodNone}
	answer(w, http.StatusOK, struct {
		oidc.DiscoveryConfiguration
		IssuerInAnswer bool `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	}{oidc.DiscoveryConfiguration{
		Issuer: s.cfg.Issuer, JwksURI: at("/.well-known/jwks.json"),
		AuthorizationEndpoint: at(authorizePath), TokenEndpoint: at(tokenPath), UserinfoEndpoint: at(userinfoPath),
		RevocationEndpoint: at(revokePath), EndSessionEndpoint: at(endSessionPath),
		ScopesSupported:                        []string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail, oidc.ScopeOfflineAccess},
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

	return nil
}
