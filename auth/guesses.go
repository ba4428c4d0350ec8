package auth

import (
	"context"
	"crypto/sha256"

	"everloop/domain"
)

// CodeTooManyGuesses is the code of a rejection because of earlier wrong credentials.
const CodeTooManyGuesses = "too_many_guesses"

// From is the origin of credentials.
type From struct {
	Network string // identifies one client
	IP      string // stored as the address of the last use of an API key; empty: unknown
}

// AuthenticateFrom is Authenticate with a limit on a client's wrong guesses: above
// [Options.GuessesPerMinute] the error is too_many_guesses, with the seconds to wait.
func (a *Authenticator) AuthenticateFrom(ctx context.Context, from From, c Credentials) (domain.Caller, error) {
	if a.guesses == nil || c == (Credentials{}) {
		return a.authenticate(ctx, from.IP, c)
	}

	sum := sha256.Sum256([]byte(c.Bearer + "\x00" + c.Cookie))
	if wait := a.guesses.Wait(from.Network, sum); wait > 0 {
		refused := domain.Newf(
			domain.RateLimited,
			CodeTooManyGuesses,
			"too many wrong credentials came from this address, retry in %d s",
			wait,
		)
		refused.RetryAfter = wait

		return domain.Caller{}, refused
	}

	caller, err := a.authenticate(ctx, from.IP, c)
	if err == nil || domain.AsError(err).Kind == domain.Unauthenticated { // an outage does not count
		a.guesses.Note(from.Network, sum, err == nil)
	}

	return caller, err
}
