package identity

import (
	"context"
	"math"
	"net/http"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/internal/clients"
)

// allowance is a bucket of wrong passwords; it is filled again within a minute.
type allowance struct {
	key  string
	most int
}

// allowances are those that a sign-in spends from.
func (s *Service) allowances(username string, client netip.Addr) []allowance {
	return []allowance{
		{"address " + clients.Network(client).String(), s.cfg.AddressGuesses},
		{"user " + strings.ToLower(username), s.cfg.UserGuesses},
	}
}

// spendGuess takes one guess from each bucket before the password is looked at, so that
// requests at the same time cannot have more than the allowance. The state is in
// PostgreSQL: neither a restart nor a second process gives new guesses.
func (s *Service) spendGuess(ctx context.Context, from []allowance) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for _, a := range from {
			var left float64

			err := tx.QueryRow(ctx, `
				INSERT INTO identity.guesses AS g (key, left_, at) VALUES ($1, $2::float8 - 1, now())
				ON CONFLICT (key) DO UPDATE
				SET left_ = greatest(-1, least($2, g.left_ + $2::float8 / 60 * extract(epoch FROM now() - g.at)) - 1), at = now()
				RETURNING left_`, a.key, float64(a.most)).Scan(&left)
			if err != nil {
				return err
			}

			if left < 0 {
				// The transaction is rolled back: a refused guess spends nothing.
				refused := fault(http.StatusTooManyRequests, "too_many_guesses", "too many wrong passwords, retry later")
				refused.RetryAfter = max(1, int(math.Ceil(-left*60/float64(a.most))))

				return refused
			}
		}

		return nil
	})
}

// returnGuess restores the guess of a right password.
func (s *Service) returnGuess(ctx context.Context, to []allowance) error {
	var batch pgx.Batch
	for _, a := range to {
		batch.Queue(`UPDATE identity.guesses SET left_ = least($2, left_ + 1) WHERE key = $1`, a.key, float64(a.most))
	}

	return s.db.SendBatch(ctx, &batch).Close()
}
