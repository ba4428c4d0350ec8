// Package identity is the agent's side of the identity service: it verifies access
// tokens with the service's keys, and asks the service about its cookies and personal
// tokens. It must not know a transport of the agent, nor how users are stored.
package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"everloop/auth"
	"everloop/domain"
)

// What access tokens of the service are.
const (
	audience    = "everloop"
	tokenType   = "at+jwt"
	tokenPrefix = "ep_"

	maxCredential = 4096
	leeway        = 5 * time.Second // between the clocks of two machines
)

// Users gives the user of a person whom the service has signed in.
type Users interface {
	// IdentityUser makes the user at the person's first request; found is false for one
	// who was deleted.
	IdentityUser(ctx context.Context, p domain.Identity) (user domain.User, found bool, err error)
}

// Verifier knows the credentials of the identity service. It implements auth.Verifier
// and auth.Liveness, and is safe for concurrent use.
type Verifier struct {
	service *Client
	users   Users
	now     func() time.Time
}

// NewVerifier returns a new Verifier; now is its clock, nil: time.Now.
func NewVerifier(service *Client, users Users, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}

	return &Verifier{service: service, users: users, now: now}
}

// Verify implements auth.Verifier.
func (v *Verifier) Verify(ctx context.Context, c auth.Credentials) (domain.Caller, error) {
	switch {
	case len(c.Bearer) > maxCredential || len(c.Cookie) > maxCredential:
		return domain.Caller{}, auth.Unauthorized()
	case c.Bearer == "" || strings.HasPrefix(c.Bearer, tokenPrefix):
		return v.byService(ctx, c)
	case strings.Count(c.Bearer, ".") == 2 && strings.HasPrefix(c.Bearer, "ey"):
		return v.byToken(ctx, c.Bearer)
	default:
		return domain.Caller{}, auth.ErrNotMine
	}
}

// Alive implements auth.Liveness.
func (v *Verifier) Alive(ctx context.Context, grants []string) ([]string, error) {
	return v.service.alive(ctx, grants...)
}

// byService asks the service about a cookie or a personal token.
func (v *Verifier) byService(ctx context.Context, c auth.Credentials) (domain.Caller, error) {
	person, grant, err := v.service.me(ctx, c)
	if err != nil {
		return domain.Caller{}, err
	}

	return v.caller(ctx, person, grant, nil)
}

func (v *Verifier) caller(ctx context.Context, p domain.Identity, grant string, expires *time.Time) (domain.Caller, error) {
	user, found, err := v.users.IdentityUser(ctx, p)
	if err == nil && !found {
		err = auth.Unauthorized()
	}

	if err != nil {
		return domain.Caller{}, err
	}

	return domain.Caller{User: user, Grant: grant, ExpiresAt: expires}, nil
}

// tokenClaims are what the service puts into its tokens next to the registered claims.
type tokenClaims struct {
	SessionID     domain.SessionID `json:"sid"`
	Username      string           `json:"preferred_username"`
	Name          string           `json:"name"`
	Email         string           `json:"email"`
	Administrator bool             `json:"administrator"`
	First         bool             `json:"first_administrator"`
	Version       int64            `json:"user_version"`
	Rights        []string         `json:"rights"` // the scopes that a token of an OpenID client is restricted to
}

// byToken verifies an access token. Its signature is checked here; the service is asked
// only whether the session continues, and while it cannot answer the token holds until it
// expires.
func (v *Verifier) byToken(ctx context.Context, raw string) (domain.Caller, error) {
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(token.Headers) != 1 || token.Headers[0].ExtraHeaders[jose.HeaderType] != tokenType {
		return domain.Caller{}, auth.Unauthorized()
	}

	key, issuer, err := v.service.key(ctx, token.Headers[0].KeyID)
	if err != nil {
		return domain.Caller{}, err
	}

	var (
		registered jwt.Claims
		own        tokenClaims
	)
	if token.Claims(key, &registered, &own) != nil || registered.Expiry == nil || registered.Subject == "" || own.SessionID == "" {
		return domain.Caller{}, auth.Unauthorized()
	}

	expected := jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{audience}, Time: v.now()}
	if registered.ValidateWithLeeway(expected, leeway) != nil {
		return domain.Caller{}, auth.Unauthorized()
	}

	held, err := v.service.alive(ctx, string(own.SessionID))
	if err != nil && !errors.Is(err, errUnavailable) {
		return domain.Caller{}, err
	}

	if err == nil && len(held) == 0 {
		return domain.Caller{}, auth.Unauthorized()
	}

	expires := registered.Expiry.Time()

	caller, err := v.caller(ctx, domain.Identity{
		Issuer: issuer, Subject: registered.Subject, Username: own.Username, Name: own.Name, Email: own.Email,
		Administrator: own.Administrator, First: own.First, Version: own.Version,
	}, string(own.SessionID), &expires)
	caller.Scopes = own.Rights

	return caller, err
}
