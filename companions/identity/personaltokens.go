package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/identity/accounts"
)

const defaultToken = "default"

// tokenOwner is [Service.person] for the routes of personal tokens, which only people can use:
// with a token, a client of the OpenID provider could outlive its consent.
func (s *Service) tokenOwner(r *http.Request) (caller, error) {
	c, err := s.person(r)
	if err == nil && c.clientID != "" {
		err = clientRefused()
	}

	return c, err
}

// defaultPersonalToken returns the caller's default token. The first call creates it; later
// calls return the same until it expires or is revoked.
func (s *Service) defaultPersonalToken(w http.ResponseWriter, r *http.Request) error {
	c, err := s.tokenOwner(r)
	if err != nil {
		return err
	}

	ctx := r.Context()
	id, token := accounts.NewID(), tokenPrefix+rand.Text()+rand.Text()

	sealed, err := s.cfg.Box.Seal(sealPurpose(id), []byte(token))
	if err != nil {
		return err
	}

	var created, expires time.Time

	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE identity.personal_tokens SET revoked_at = now(), sealed = ''
			WHERE  user_id = $1 AND revoked_at IS NULL AND expires_at <= now()`, c.user.ID)
		if err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			INSERT INTO identity.personal_tokens (id, user_id, name, hash, sealed)
			SELECT $1, u.id, $3, $4, $5 FROM identity.users u WHERE u.id = $2 AND u.deleted_at IS NULL AND NOT u.disabled
			ON CONFLICT (user_id, name) WHERE revoked_at IS NULL DO NOTHING`, id, c.user.ID, defaultToken, accounts.Hash(token), sealed)
		if err != nil {
			return err
		}

		if tag.RowsAffected() > 0 {
			if err := accounts.Audit(ctx, tx, c.user.ID, "token.create", id, nil); err != nil {
				return err
			}
		}

		err = tx.QueryRow(ctx, `
			SELECT id, sealed, created_at, expires_at FROM identity.personal_tokens
			WHERE  user_id = $1 AND name = $2 AND revoked_at IS NULL`,
			c.user.ID, defaultToken).Scan(&id, &sealed, &created, &expires)
		if errors.Is(err, pgx.ErrNoRows) {
			return unauthorized() // the user or the token was deleted concurrently
		}

		return err
	})
	if err != nil {
		return err
	}

	plain, err := s.cfg.Box.Open(sealPurpose(id), sealed)
	if err != nil {
		return fault(http.StatusConflict, "token_unreadable",
			"the token was sealed with another ENCRYPTION_KEY: revoke it, and a new one is made")
	}

	w.Header().Set("Cache-Control", "no-store")
	answer(w, http.StatusOK, map[string]any{"token": string(plain), "name": defaultToken, "created_at": created, "expires_at": expires})

	return nil
}

func sealPurpose(id string) string { return "personal-token/" + id }

// revokeDefaultToken revokes the caller's default token; the next call creates another.
func (s *Service) revokeDefaultToken(w http.ResponseWriter, r *http.Request) error {
	c, err := s.tokenOwner(r)
	if err != nil {
		return err
	}

	return noContent(w, pgx.BeginFunc(r.Context(), s.db, func(tx pgx.Tx) error {
		if err := revokeTokens(r.Context(), tx, c.user.ID); err != nil {
			return err
		}

		return accounts.Audit(r.Context(), tx, c.user.ID, "token.revoke", c.user.ID, nil)
	}))
}

func revokeTokens(ctx context.Context, q accounts.Querier, userID string) error {
	_, err := q.Exec(ctx,
		`UPDATE identity.personal_tokens SET revoked_at = now(), sealed = '' WHERE user_id = $1 AND revoked_at IS NULL`, userID)

	return err
}
