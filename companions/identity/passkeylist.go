package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/companions/identity/accounts"
	"everloop/companions/identity/passkeys"
)

const maxPasskeys = 20 // of one user

// passkeyView is a passkey as its user sees it.
type passkeyView struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"created_at"`
	LastUsed  *time.Time `json:"last_used_at"`
}

func checkPasskeyName(name string) error {
	if strings.TrimSpace(name) == "" {
		return invalid("body.name", "must not be empty")
	}

	return checkName("body.name", name, 64)
}

// keepPasskey stores a passkey of a user.
func (s *Service) keepPasskey(ctx context.Context, c caller, name string, key passkeys.Key) (passkeyView, error) {
	made, userID := passkeyView{ID: accounts.NewID(), Name: name}, c.user.ID

	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var (
			alive bool
			count int
		)

		err := tx.QueryRow(ctx, `SELECT deleted_at IS NULL AND NOT disabled FROM identity.users WHERE id = $1 FOR UPDATE`,
			userID).Scan(&alive)
		if err != nil {
			return err
		}

		if !alive {
			return unauthorized()
		}

		if err := tx.QueryRow(ctx, `SELECT count(*) FROM identity.passkeys WHERE user_id = $1`, userID).Scan(&count); err != nil {
			return err
		}

		if count >= maxPasskeys {
			return fault(http.StatusConflict, "too_many_passkeys", "a user has at most %d passkeys: remove one first", maxPasskeys)
		}

		err = tx.QueryRow(ctx, `
			INSERT INTO identity.passkeys (id, user_id, credential_id, name, credential) VALUES ($1, $2, $3, $4, $5) RETURNING created_at`,
			made.ID, userID, key.ID, name, string(key.Data)).Scan(&made.CreatedAt)
		if broken, ok := errors.AsType[*pgconn.PgError](err); ok && broken.Code == "23505" {
			return fault(http.StatusConflict, "passkey_known", "this passkey is registered already")
		}

		if err != nil {
			return err
		}

		if err := prove(ctx, tx, c.sessionID); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, userID, "passkey.create", made.ID, nil)
	})

	return made, err
}

func (s *Service) passkeysOf(ctx context.Context, userID string) ([]passkeyView, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT id, name, created_at, last_used_at FROM identity.passkeys WHERE user_id = $1 ORDER BY id LIMIT $2`, userID, maxPasskeys)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[passkeyView])

	return append([]passkeyView{}, found...), err
}

// listPasskeys lists the caller's passkeys.
func (s *Service) listPasskeys(w http.ResponseWriter, r *http.Request) error {
	c, err := s.settingUp(r)
	if err != nil {
		return err
	}

	found, err := s.passkeysOf(r.Context(), c.user.ID)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": found})

	return nil
}

func noPasskey() *Fault {
	return fault(http.StatusNotFound, "passkey_not_found", "this passkey does not exist")
}

func (s *Service) namePasskey(ctx context.Context, userID, id, name string) error {
	if err := checkPasskeyName(name); err != nil {
		return err
	}

	return s.changePasskey(ctx, userID, id, "passkey.rename",
		`UPDATE identity.passkeys SET name = $3 WHERE id = $1 AND user_id = $2`, name)
}

const passkeyRemoved = "passkey.remove"

func (s *Service) dropPasskey(ctx context.Context, userID, id string) error {
	return s.changePasskey(ctx, userID, id, passkeyRemoved, `DELETE FROM identity.passkeys WHERE id = $1 AND user_id = $2`)
}

func (s *Service) changePasskey(ctx context.Context, userID, id, action, statement string, args ...any) error {
	if len(sane([]string{id})) == 0 {
		return noPasskey()
	}

	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement, append([]any{id, userID}, args...)...)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return noPasskey()
		}

		if action == passkeyRemoved {
			if err := revokeTokens(ctx, tx, userID); err != nil {
				return err
			}
		}

		return accounts.Audit(ctx, tx, userID, action, id, nil)
	})
}

// renamePasskey renames one of the caller's passkeys.
func (s *Service) renamePasskey(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[struct {
		Name string `json:"name"`
	}](w, r, s.person)
	if err != nil {
		return err
	}

	return noContent(w, s.namePasskey(r.Context(), c.user.ID, r.PathValue("id"), in.Name))
}

// removePasskey removes one of the caller's passkeys.
func (s *Service) removePasskey(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	return noContent(w, s.dropPasskey(r.Context(), c.user.ID, r.PathValue("id")))
}

// submitPasskeys handles the account page's forms that rename or remove a passkey.
func (s *Service) submitPasskeys(w http.ResponseWriter, r *http.Request, c caller) error {
	var err error

	id := r.PostForm.Get("id")
	if r.PostForm.Get("action") == "remove" {
		err = s.dropPasskey(r.Context(), c.user.ID, id)
	} else {
		err = s.namePasskey(r.Context(), c.user.ID, id, r.PostForm.Get("name"))
	}

	if err != nil {
		return err
	}

	return done(w, r, "passkey")
}
