package engine

import (
	"context"
	"errors"
	"sync/atomic"

	"everloop/auth"
	"everloop/domain"
	"everloop/infra/embedded"
)

// Administrators verifies API keys for Temporal. Engines start before the database is
// migrated: until the authenticator is set, no key is accepted.
type Administrators struct {
	authenticator atomic.Pointer[auth.Authenticator]
}

var errNotReady = errors.New("the service is still starting")

// Use sets the authenticator.
func (a *Administrators) Use(authenticator *auth.Authenticator) { a.authenticator.Store(authenticator) }

// Administrator implements embedded.Administrators.
func (a *Administrators) Administrator(ctx context.Context, key string) (string, error) {
	authenticator := a.authenticator.Load()
	if authenticator == nil {
		return "", errNotReady
	}
	// Temporal does not say who calls: all its clients share one allowance of guesses.
	caller, err := authenticator.AuthenticateFrom(ctx, auth.From{Network: "temporal"}, auth.Credentials{Bearer: key})
	if err != nil {
		if domain.AsError(err).Kind == domain.Unauthenticated {
			return "", embedded.ErrNoAdministrator
		}

		return "", err
	}

	if !caller.User.Administrator {
		return "", embedded.ErrNoAdministrator
	}

	return caller.User.Username, nil
}
