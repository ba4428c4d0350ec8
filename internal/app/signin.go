package app

import (
	"context"
	"errors"
	"strings"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/identity"
	"everloop/service/accounts"
	"everloop/service/work"
)

// signInSettings say by what the agent accepts people in addition to API keys.
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
	follower *identity.Follower
}

// newSignIn returns the identity service of the settings. Changed is called for each account
// that the service has closed, opened or demoted.
func (b *backend) newSignIn(changed func(ctx context.Context, userID string, open bool)) signIn {
	if b.settings.IdentityURL == "" {
		return signIn{}
	}

	service := identity.NewClient(b.settings.IdentityURL, nil)

	return signIn{service, identity.NewVerifier(service, b.accounts, nil), identity.NewFollower(service, b.accounts, changed, nil)}
}

// known is auth.Options.Known.
func (s signIn) known() func(domain.User) error {
	if s.follower == nil {
		return nil
	}

	return s.follower.Known
}

// jobs keep the accounts of this process as the identity service has them.
func (s signIn) jobs() []work.Job {
	if s.follower == nil {
		return nil
	}

	return []work.Job{{Name: "follow accounts of the identity service", Every: accountEvery, Run: s.follower.Follow, Local: true}}
}

func (s signIn) verifiers() []auth.Verifier {
	if s.verifier == nil {
		return nil
	}

	return []auth.Verifier{s.verifier}
}

// administration is the agent's own, which asks the identity service about its people.
type administration struct {
	people *accounts.Store
	signIn signIn
}

// TokenStates is account.API.TokenStates.
func (a administration) TokenStates(ctx context.Context, people []domain.ExternalUser) ([]domain.TokenState, error) {
	states, err := a.people.TokenStates(ctx, people)
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
