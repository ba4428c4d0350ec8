package identity

import (
	"context"
	"errors"
	"net/http"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/companions/identity/accounts"
	"everloop/companions/identity/passwords"
)

// user is a person with an account.
type user = accounts.User

const firstUsername = "admin"

// ensureFirst creates the first administrator if there is no user.
func (s *Service) ensureFirst(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(accounts.SchemaLock)); err != nil {
			return err
		}

		var populated bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM identity.users)`).Scan(&populated); err != nil || populated {
			return err
		}

		password, err := s.cfg.FirstPassword()
		if err != nil {
			return err
		}

		if err := checkPassword("IDENTITY_ADMIN_PASSWORD", password); err != nil {
			return err
		}

		hash, err := s.hasher.Hash(ctx, password)
		if err != nil {
			return err
		}

		_, err = insertUser(ctx, tx, user{
			ID: accounts.NewID(), Username: firstUsername, Name: "Administrator", Administrator: true, First: true,
		}, hash)
		s.MadeFirst = err == nil

		return err
	})
}

func insertUser(ctx context.Context, q accounts.Querier, u user, hash string) (user, error) {
	rows, _ := q.Query(ctx, `
		INSERT INTO identity.users AS u (id, username, name, email, administrator, first, password_hash)
		VALUES (@id, @username, @name, @email, @administrator, @first, @hash)
		RETURNING `+accounts.Columns, pgx.NamedArgs{
		"id": u.ID, "username": u.Username, "name": u.Name, "email": u.Email,
		"administrator": u.Administrator, "first": u.First, "hash": hash,
	})

	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[user])
	if broken, ok := errors.AsType[*pgconn.PgError](err); ok && broken.Code == "23505" {
		return user{}, fault(http.StatusConflict, "username_taken", "this user name is taken")
	}

	return made, err
}

func checkName(field, value string, most int) error {
	if utf8.RuneCountInString(value) > most || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return invalid(field, "must have at most %d characters and no control characters", most)
	}

	return nil
}

func checkPassword(field, password string) error {
	if utf8.RuneCountInString(password) < passwords.Min {
		return invalid(field, "must have at least %d characters", passwords.Min)
	}

	if len(password) > passwords.Max {
		return invalid(field, "must have at most %d bytes", passwords.Max)
	}

	if passwords.Common(password) {
		return invalid(field, "must not be a common password")
	}

	return nil
}

func checkEmail(email string) error {
	if email == "" {
		return nil
	}

	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email || len(email) > 320 {
		return invalid("body.email", "must be an e-mail address")
	}

	return nil
}

// newUser is an administrator's input for a new account.
type newUser struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Email         string `json:"email"`
	Name          string `json:"name"`
	Administrator bool   `json:"administrator"`
}

// createUser creates an account, for administrators only.
func (s *Service) createUser(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[newUser](w, r, s.administrator)
	if err != nil {
		return err
	}

	if in.Username == "" || in.Username != strings.TrimSpace(in.Username) {
		return invalid("body.username", "must not be empty, nor begin or end with a space")
	}

	if err := firstOf(
		checkName("body.username", in.Username, 128), checkName("body.name", in.Name, 256), checkEmail(in.Email),
		checkPassword("body.password", in.Password),
	); err != nil {
		return err
	}

	hash, err := s.hasher.Hash(r.Context(), in.Password)
	if err != nil {
		return err
	}

	var made user

	err = pgx.BeginFunc(r.Context(), s.db, func(tx pgx.Tx) (err error) {
		u := user{ID: accounts.NewID(), Username: in.Username, Name: in.Name, Email: in.Email, Administrator: in.Administrator}
		if made, err = insertUser(r.Context(), tx, u, hash); err != nil {
			return err
		}

		return accounts.Audit(r.Context(), tx, c.actor(), "user.create", made.ID, nil)
	})
	if err != nil {
		return err
	}

	answer(w, http.StatusCreated, made)

	return nil
}

func firstOf(faults ...error) error {
	for _, err := range faults {
		if err != nil {
			return err
		}
	}

	return nil
}

// changePassword replaces the caller's own password and ends their other sessions and
// personal tokens.
func (s *Service) changePassword(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[struct {
		Current string `json:"current_password"`
		New     string `json:"new_password"`
	}](w, r, s.person)
	if err != nil {
		return err
	}

	return noContent(w, s.replacePassword(r, c, in.Current, in.New))
}

// replacePassword changes the caller's password, given the current one. A user without a
// password receives one from an administrator. Both hashes take a while: a password that was
// set, or a session that was ended, in the meantime takes precedence.
func (s *Service) replacePassword(r *http.Request, c caller, current, next string) error {
	if err := checkPassword("body.new_password", next); err != nil {
		return err
	}

	before, err := s.checkCurrent(r, c, current)
	if err != nil {
		return err
	}

	hash, err := s.hasher.Hash(r.Context(), next)
	if err != nil {
		return err
	}

	ctx := r.Context()

	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE identity.users SET password_hash = $2
			WHERE  id = $1 AND password_hash = $3 AND deleted_at IS NULL AND NOT disabled`, c.user.ID, hash, before)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return passwordWrong()
		}

		if err := checkAlive(ctx, tx, c); err != nil {
			return err
		}

		if err := accounts.EndSessions(ctx, tx, c.user.ID, c.sessionID, "password changed"); err != nil {
			return err
		}

		if err := revokeTokens(ctx, tx, c.user.ID); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.user.ID, "user.password", c.user.ID, nil)
	})
}

// checkAlive rejects a caller whose session or personal token has ended since its check. The
// agent checks API keys.
func checkAlive(ctx context.Context, tx pgx.Tx, c caller) error {
	if c.credential() == "" {
		return nil
	}

	var alive bool

	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM identity.sessions WHERE id = $1 AND ended_at IS NULL AND expires_at > now())
		    OR EXISTS (SELECT 1 FROM identity.personal_tokens WHERE id = $2 AND revoked_at IS NULL AND expires_at > now())`,
		c.sessionID, c.tokenID).Scan(&alive)
	if err != nil {
		return err
	}

	if !alive {
		return unauthorized()
	}

	return nil
}
