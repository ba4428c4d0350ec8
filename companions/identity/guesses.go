package identity

import (
	"context"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
	"everloop/companions/identity/totp"
	"everloop/internal/clients"
)

// allowance is a bucket of wrong guesses, which refills over a period.
type allowance struct {
	key  string
	most int
	fill time.Duration
}

// addressAllowance returns the allowance of a client's address.
func (s *Service) addressAllowance(r *http.Request) allowance {
	return allowance{"address " + clients.Network(edge.Client(r)).String(), s.cfg.AddressGuesses, time.Minute}
}

// allAddresses is the ratio of a user name's guesses over all addresses to those at one
// address.
const allAddresses = 10

// passwordAllowances returns the allowances of a password attempt: of the address, of the user
// name at that address, and of the user name over all addresses. The last one does not apply to
// an address from which the user signed in recently, so that others' guesses do not lock them
// out there.
func (s *Service) passwordAllowances(r *http.Request, username string) ([]allowance, error) {
	name, network := strings.ToLower(username), clients.Network(edge.Client(r))
	out := []allowance{s.addressAllowance(r), {"user " + network.String() + " " + name, s.cfg.UserGuesses, time.Minute}}

	known, err := s.signedInFrom(r.Context(), name, network)
	if !known {
		out = append(out, allowance{"name " + name, allAddresses * s.cfg.UserGuesses, time.Minute})
	}

	return out, err
}

// signedInFrom reports whether a session of a user, open or recently ended, was started from a
// network.
func (s *Service) signedInFrom(ctx context.Context, name string, network netip.Prefix) (bool, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT s.address FROM identity.sessions s JOIN identity.users u ON u.id = s.user_id
		WHERE  lower(u.username) = lower($1) AND u.deleted_at IS NULL AND s.client_id = ''
		ORDER BY s.id DESC LIMIT $2`, name, 2*maxSessions)

	addresses, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return slices.ContainsFunc(addresses, func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && clients.Network(address) == network
	}), err
}

const (
	dailyCodes = 100 // wrong codes of an app, of one user in a day
	dailyKey   = "codes of a day "
)

// codeAllowances returns the allowances of a code attempt. A code of an app has six digits: a
// limit by minute alone would let someone with the password find one within weeks. A recovery
// code is too long to guess; it is exempt from the daily limit and so still opens the account.
func (s *Service) codeAllowances(r *http.Request, userID, code string) []allowance {
	out := []allowance{s.addressAllowance(r), {"code " + userID, s.cfg.UserGuesses, time.Minute}}
	if !totp.IsRecovery(totp.Normal(code)) {
		out = append(out, allowance{dailyKey + userID, dailyCodes, 24 * time.Hour})
	}

	return out
}

// spendGuess takes one guess from each bucket before the password is checked, so that
// concurrent requests cannot exceed the allowance. The state is in PostgreSQL, so that a
// restart or a second process does not reset it.
func (s *Service) spendGuess(ctx context.Context, from []allowance) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for _, a := range from {
			var left float64

			err := tx.QueryRow(ctx, `
				INSERT INTO identity.guesses AS g (key, left_, at) VALUES ($1, $2::float8 - 1, now())
				ON CONFLICT (key) DO UPDATE
				SET left_ = greatest(-1, least($2, g.left_ + $2::float8 / $3::float8 * extract(epoch FROM now() - g.at)) - 1), at = now()
				RETURNING left_`, a.key, float64(a.most), a.fill.Seconds()).Scan(&left)
			if err != nil {
				return err
			}

			if left < 0 {
				// The transaction is rolled back, so that a refused guess is not counted.
				refused := fault(http.StatusTooManyRequests, "too_many_guesses", "too many wrong passwords or codes, retry later")
				refused.RetryAfter = max(1, int(math.Ceil(-left*a.fill.Seconds()/float64(a.most))))

				return refused
			}
		}

		return nil
	})
}

// returnGuess returns the guess of a correct attempt.
func (s *Service) returnGuess(ctx context.Context, to []allowance) error {
	var batch pgx.Batch
	for _, a := range to {
		batch.Queue(`UPDATE identity.guesses SET left_ = least($2, left_ + 1) WHERE key = $1`, a.key, float64(a.most))
	}

	return s.db.SendBatch(ctx, &batch).Close()
}

// tryReturnGuess returns the guess of a code that is used up. It only logs errors: the client
// cannot send the code again, and allowances refill with time.
func (s *Service) tryReturnGuess(ctx context.Context, to []allowance) {
	if err := s.returnGuess(ctx, to); err != nil {
		s.log.Warn("failed to return a guess", "error", err)
	}
}
