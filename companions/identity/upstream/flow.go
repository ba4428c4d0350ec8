package upstream

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Errors of a sign-in.
var (
	// ErrUnavailable reports that the provider is unavailable or unusable.
	ErrUnavailable = errors.New("the provider is not available")
	// ErrRefused is the error of an invalid answer.
	ErrRefused = errors.New("the answer of the provider was not accepted")
)

// ExternalUser is a person whom a provider has signed in.
type ExternalUser struct {
	Issuer, Subject string
	Username, Name  string
	Email           string
	EmailVerified   bool
}

// Attempt is a sign-in in progress. The client must neither read nor change it.
type Attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

const (
	requestTime = 10 * time.Second
	retryAfter  = 2 * time.Second // min pause before another request to a provider that was unavailable
	maxAnswer   = 1 << 20
)

// Flow signs people in with one provider. It reads the discovery document on first use, so that
// the service starts while a provider is unavailable.
type Flow struct {
	Provider Provider
	redirect string
	client   *http.Client

	mu       sync.Mutex
	found    *oidc.Provider
	names    bool // the provider sends iss in each response (RFC 9207)
	failed   error
	failedAt time.Time
}

// NewFlow returns a new flow for a provider, which redirects people to a redirect URI.
func NewFlow(p Provider, redirect string) *Flow {
	return &Flow{Provider: p, redirect: redirect, client: &http.Client{Timeout: requestTime, Transport: bounded{http.DefaultTransport}}}
}

// bounded limits the size of a provider's responses.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}

	return response, err
}

func (f *Flow) discover() (*oidc.Provider, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.found != nil {
		return f.found, nil
	}

	if f.failed != nil && time.Since(f.failedAt) < retryAfter {
		return nil, f.failed
	}

	// The library stores this context for later requests of the provider's keys: it must not
	// end.
	found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), f.client), f.Provider.Issuer)
	if err != nil {
		f.failed, f.failedAt = errors.Join(ErrUnavailable, err), time.Now()
		return nil, f.failed
	}

	var says struct {
		Names bool `json:"authorization_response_iss_parameter_supported"`
	}
	if err := found.Claims(&says); err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}

	f.found, f.names = found, says.Names

	return found, nil
}

func (f *Flow) oauth(p *oidc.Provider) oauth2.Config {
	endpoint := p.Endpoint()
	if f.Provider.ClientSecret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}

	return oauth2.Config{
		ClientID: f.Provider.ClientID, ClientSecret: f.Provider.ClientSecret, RedirectURL: f.redirect,
		Scopes: f.Provider.Scopes, Endpoint: endpoint,
	}
}

// Begin returns the URL to redirect the browser to, and the state that Finish needs.
func (f *Flow) Begin() (string, Attempt, error) {
	p, err := f.discover()
	if err != nil {
		return "", Attempt{}, err
	}

	a := Attempt{State: rand.Text() + rand.Text(), Nonce: rand.Text() + rand.Text(), Verifier: oauth2.GenerateVerifier()}
	cfg := f.oauth(p)

	return cfg.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Finish exchanges the code of the provider's response, and checks state, nonce and the ID
// token. issuer is `iss` of the response, "" if the provider sends none.
func (f *Flow) Finish(ctx context.Context, a Attempt, state, issuer, code string) (ExternalUser, error) {
	if a.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) != 1 {
		return ExternalUser{}, fmt.Errorf("%w: state is another", ErrRefused)
	}

	p, err := f.discover()
	if err != nil {
		return ExternalUser{}, err
	}

	if issuer != f.Provider.Issuer && (issuer != "" || f.names) {
		return ExternalUser{}, fmt.Errorf("%w: iss is another", ErrRefused)
	}

	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, f.client), 2*requestTime)
	defer cancel()

	cfg := f.oauth(p)

	token, err := cfg.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text contains the whole response
		return ExternalUser{}, fmt.Errorf("%w: %s", ErrRefused, refused.ErrorCode)
	}

	if err != nil {
		return ExternalUser{}, errors.Join(ErrUnavailable, err)
	}

	raw, _ := token.Extra("id_token").(string)

	signed, err := p.VerifierContext(ctx, &oidc.Config{ClientID: f.Provider.ClientID}).Verify(ctx, raw)
	if err != nil {
		return ExternalUser{}, errors.Join(ErrRefused, err)
	}

	if subtle.ConstantTimeCompare([]byte(signed.Nonce), []byte(a.Nonce)) != 1 {
		return ExternalUser{}, fmt.Errorf("%w: nonce is another", ErrRefused)
	}

	var made struct {
		For string `json:"azp"`
	}
	if err := signed.Claims(&made); err != nil || made.For != f.Provider.ClientID && (made.For != "" || len(signed.Audience) > 1) {
		return ExternalUser{}, fmt.Errorf("%w: the ID token was made for another client", ErrRefused)
	}

	return f.person(ctx, p, signed, token)
}

type claims struct {
	Username      string `json:"preferred_username"`
	Name          string `json:"name"`
	Email         string `json:"email"`
	EmailVerified any    `json:"email_verified"` // some providers send it as text
}

// person reads the claims of the ID token, and of the userinfo endpoint where the token
// has no e-mail address.
func (f *Flow) person(ctx context.Context, p *oidc.Provider, signed *oidc.IDToken, token *oauth2.Token) (ExternalUser, error) {
	var said claims
	if err := signed.Claims(&said); err != nil {
		return ExternalUser{}, errors.Join(ErrRefused, err)
	}

	if said.Email == "" && p.UserInfoEndpoint() != "" {
		said.EmailVerified = nil // it describes the address next to it

		info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return ExternalUser{}, errors.Join(ErrUnavailable, err)
		}

		if info.Subject != signed.Subject {
			return ExternalUser{}, fmt.Errorf("%w: userinfo is of another person", ErrRefused)
		}

		if err := info.Claims(&said); err != nil {
			return ExternalUser{}, errors.Join(ErrRefused, err)
		}
	}

	verified := said.EmailVerified == true || said.EmailVerified == "true"

	return ExternalUser{
		Issuer: signed.Issuer, Subject: signed.Subject, Username: said.Username, Name: said.Name,
		Email: said.Email, EmailVerified: verified,
	}, nil
}
