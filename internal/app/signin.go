package app

import (
	"context"
	"errors"
	"strings"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/identity"
	"everloop/infra/postgres"
)

// signInSettings say by what the agent accepts people besides API keys.
type signInSettings struct {
	IdentityURL string `name:"identity-url" env:"IDENTITY_URL" help:"Identity service whose tokens and cookies are accepted; in up its own when unset, else API keys alone."`
}

func (s signInSettings) check() error {
	if s.IdentityURL != "" && !strings.HasPrefix(s.IdentityURL, "http://") && !strings.HasPrefix(s.IdentityURL, "https://") {
		return errors.New("IDENTITY_URL must start with http:// or https://")
	}

	return nil
}

// signIn is the identity service as the agent uses it; the zero value is none.
type signIn struct {
	service  *identity.Client
	verifier *identity.Verifier
}

func (b *backend) newSignIn() signIn {
	if b.settings.IdentityURL == "" {
		return signIn{}
	}

	service := identity.NewClient(b.settings.IdentityURL, nil)

	return signIn{service, identity.NewVerifier(service, b.DB, nil)}
}

func (s signIn) verifiers() []auth.Verifier {
	if s.verifier == nil {
		return nil
	}

	return []auth.Verifier{s.verifier}
}

// administration is the agent's own, which asks the identity service about its people.
type administration struct {
	*postgres.DB
	signIn signIn
}

// TokenStates implements api.Administration.
func (a administration) TokenStates(ctx context.Context, people []domain.ExternalUser) ([]domain.TokenState, error) {
	states, err := a.DB.TokenStates(ctx, people)
	if err != nil || a.signIn.service == nil || len(people) == 0 {
		return states, err
	}

	known, err := a.signIn.service.TokenStates(ctx, httpx.RequestOf(ctx).Came, people)
	if err != nil {
		return nil, err
	}

	for i := range states {
		if state, found := known[states[i].Sub]; found {
			states[i] = state
		}
	}

	return states, nil
}
