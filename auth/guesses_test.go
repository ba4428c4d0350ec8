package auth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
)

func TestAuthenticator_AuthenticateFrom_bounds_guesses(t *testing.T) {
	t.Parallel()

	r, c := newFakeKeys(), &clock{at: time.Now()}
	a := auth.New(r, auth.Options{Now: c.now, GuessesPerMinute: 3})
	t.Cleanup(a.Close)

	from := func(address, token string) error {
		_, err := a.AuthenticateFrom(t.Context(), auth.From{Network: address}, bearer(token))
		return err
	}
	known, _ := r.issue("u")
	fresh, _ := r.issue("v")

	require.NoError(t, from("here", known))
	require.NoError(t, from("here", known), "what is right is no guess")

	for i := range 3 {
		for range 5 { // the same again is no new guess
			require.Equal(t, domain.Unauthenticated, domain.AsError(from("here", fmt.Sprint("guess-", i))).Kind)
		}
	}

	refused := domain.AsError(from("here", "guess"))
	require.Equal(t, auth.CodeTooManyGuesses, refused.Code)
	require.Equal(t, domain.RateLimited, refused.Kind)
	require.Equal(t, 20, refused.RetryAfter)

	asked := r.asked

	require.Equal(t, auth.CodeTooManyGuesses, domain.AsError(from("here", fresh)).Code, "a right guess among wrong ones is not found out")
	require.Equal(t, asked, r.asked, "the database is not asked")
	require.Equal(t, domain.Unauthenticated, domain.AsError(from("here", "")).Kind, "no credentials are no guess")
	require.NoError(t, from("here", known), "credentials that held here before still do")
	require.NoError(t, from("there", fresh), "another address is not concerned")

	c.pass(21 * time.Second)
	require.NoError(t, from("here", fresh))
	c.pass(10 * time.Second) // and the cache's time has ended
	r.revoke(known)
	require.Equal(t, domain.Unauthenticated, domain.AsError(from("here", known)).Kind)
	require.Equal(t, auth.CodeTooManyGuesses, domain.AsError(from("here", "another")).Code, "revoked credentials are guesses")
}

func TestAuthenticator_AuthenticateFrom_counts_no_outage(t *testing.T) {
	t.Parallel()

	r := newFakeKeys()
	a := auth.New(r, auth.Options{GuessesPerMinute: 1})
	t.Cleanup(a.Close)

	plaintext, _ := r.issue("u")
	r.broken = domain.Unavailablef("the database", nil)

	for range 3 {
		_, err := a.AuthenticateFrom(t.Context(), auth.From{Network: "here"}, bearer(plaintext))
		require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
	}
}
