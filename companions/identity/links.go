package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/companions/edge"
	"everloop/companions/identity/accounts"
	"everloop/companions/identity/upstream"
)

const maxLinks = 20 // of one user

// linkView is a linked account as its user sees it.
type linkView struct {
	ID        string    `json:"id"`
	Provider  string    `json:"provider"`
	Issuer    string    `json:"issuer"`
	Email     string    `json:"email"`
	CreatedAt time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used_at"`
}

// admit returns the user of a person whom another provider has signed in, by issuer and subject
// only. A first sign-in creates an account if the configuration allows it.
func (s *Service) admit(r *http.Request, f *upstream.Flow, who upstream.ExternalUser) (user, proof, error) {
	var (
		u    user
		hash string // of the password; a new account has none
	)

	ctx := r.Context()
	address := map[string]string{"address": edge.Client(r).String(), "provider": f.Provider.ID}

	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		found, err := s.linked(ctx, tx, who, &u, &hash)
		if err != nil || found {
			return err
		}

		if !f.Provider.Admits(who) {
			return fault(http.StatusForbidden, "account_unknown",
				"no account here belongs to this sign-in: sign in with your password, then link it on your account page")
		}

		// Two first sign-ins with one address are serialized.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('identity/email/' || lower($1), 0))`,
			who.Email); err != nil {
			return err
		}

		// Another tab of the same person may have created the account before the lock was free.
		if found, err := s.linked(ctx, tx, who, &u, &hash); err != nil || found {
			return err
		}

		u, err = s.createLinked(ctx, tx, who)
		if err != nil {
			return err
		}

		if err := insertLink(ctx, tx, u.ID, f.Provider.ID, who); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, u.ID, "user.create", u.ID, address)
	})
	if f, refused := errors.AsType[*Fault](err); refused {
		address["issuer"], address["subject"], address["code"] = who.Issuer, who.Subject, f.Code
		err = errors.Join(accounts.Audit(ctx, s.db, u.ID, "auth.refused", u.ID, address), f)
	}

	return u, proof{AMR: byProvider, Password: accounts.Hash(hash), Issuer: who.Issuer, Subject: who.Subject}, err
}

// linked returns the user of a linked account with the hash of their password, and records its
// use.
func (s *Service) linked(ctx context.Context, tx pgx.Tx, who upstream.ExternalUser, u *user, hash *string) (bool, error) {
	var open bool

	err := tx.QueryRow(ctx, `
		UPDATE identity.external_accounts e SET last_used_at = now(), email = $3
		FROM   identity.users u WHERE u.id = e.user_id AND e.issuer = $1 AND e.subject = $2
		RETURNING `+accounts.Columns+`, u.password_hash, u.deleted_at IS NULL`, who.Issuer, who.Subject, who.Email).Scan(
		append(u.Columns(), hash, &open)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}

	switch {
	case err != nil:
		return false, err
	case !open:
		return false, fault(http.StatusForbidden, "account_closed", "the account of this sign-in was deleted")
	case u.Disabled:
		return false, fault(http.StatusForbidden, "account_disabled", "an administrator has disabled this account")
	}

	return true, nil
}

// createLinked creates an account for a person who signs in elsewhere. An existing account with
// the same e-mail address is not linked: they must prove that it is theirs by signing in. The
// caller must hold the lock of the address.
func (s *Service) createLinked(ctx context.Context, tx pgx.Tx, who upstream.ExternalUser) (user, error) {
	var emailTaken bool

	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM identity.users WHERE lower(email) = lower($1) AND email <> '' AND deleted_at IS NULL)`,
		who.Email).Scan(&emailTaken)
	if err != nil {
		return user{}, err
	}

	if emailTaken {
		return user{}, fault(http.StatusConflict, "email_taken",
			"an account with this e-mail address exists: sign in to it, then link this sign-in on your account page")
	}

	wanted := wantedName(who)

	var nameTaken bool

	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM identity.users WHERE lower(username) = lower($1) AND deleted_at IS NULL)`,
		wanted).Scan(&nameTaken)
	if err != nil {
		return user{}, err
	}

	if nameTaken {
		wanted += "-" + strings.ToLower(rand.Text()[:6])
	}

	name := who.Name
	if checkName("", name, 256) != nil || !plainText(name) {
		name = ""
	}

	return insertUser(ctx, tx, user{ID: accounts.NewID(), Username: wanted, Name: name, Email: who.Email}, "")
}

func insertLink(ctx context.Context, tx pgx.Tx, userID, provider string, who upstream.ExternalUser) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO identity.external_accounts (id, issuer, subject, user_id, provider, email) VALUES ($1, $2, $3, $4, $5, $6)`,
		accounts.NewID(), who.Issuer, who.Subject, userID, provider, who.Email)
	if broken, ok := errors.AsType[*pgconn.PgError](err); ok && broken.Code == "23505" {
		return fault(http.StatusConflict, "link_taken", "this sign-in belongs to an account already")
	}

	return err
}

// link links an external account to a user who has signed in.
func (s *Service) link(ctx context.Context, u user, provider string, who upstream.ExternalUser) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var (
			alive bool
			count int
		)

		err := tx.QueryRow(ctx, `SELECT deleted_at IS NULL AND NOT disabled FROM identity.users WHERE id = $1 FOR UPDATE`,
			u.ID).Scan(&alive)
		if err != nil {
			return err
		}

		if !alive {
			return unauthorized()
		}

		if err := tx.QueryRow(ctx, `SELECT count(*) FROM identity.external_accounts WHERE user_id = $1`, u.ID).Scan(&count); err != nil {
			return err
		}

		if count >= maxLinks {
			return fault(http.StatusConflict, "too_many_links", "a user has at most %d links: remove one first", maxLinks)
		}

		if err := insertLink(ctx, tx, u.ID, provider, who); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, u.ID, "link.create", u.ID, map[string]string{"issuer": who.Issuer, "subject": who.Subject})
	})
}

func (s *Service) linksOf(ctx context.Context, userID string) ([]linkView, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT id, provider, issuer, email, created_at, last_used_at FROM identity.external_accounts
		WHERE  user_id = $1 ORDER BY id LIMIT $2`, userID, maxLinks)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[linkView])

	return append([]linkView{}, found...), err
}

// unlink removes a link. The last link of a user without a password cannot be removed.
func (s *Service) unlink(ctx context.Context, userID, id string) error {
	missing := fault(http.StatusNotFound, "link_not_found", "this link does not exist")
	if len(sane([]string{id})) == 0 {
		return missing
	}

	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var (
			password bool
			others   int
		)

		err := tx.QueryRow(ctx, `SELECT password_hash <> '' FROM identity.users WHERE id = $1 FOR UPDATE`, userID).Scan(&password)
		if err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `DELETE FROM identity.external_accounts WHERE id = $1 AND user_id = $2`, id, userID)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return missing
		}

		err = tx.QueryRow(ctx, `SELECT count(*) FROM identity.external_accounts WHERE user_id = $1`, userID).Scan(&others)
		if err != nil {
			return err
		}

		if !password && others == 0 {
			return fault(http.StatusConflict, "last_link", "an account without a password keeps its last link")
		}

		return accounts.Audit(ctx, tx, userID, "link.remove", id, nil)
	})
}

// listLinks lists the linked accounts of the caller.
func (s *Service) listLinks(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	found, err := s.linksOf(r.Context(), c.user.ID)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": found})

	return nil
}

// removeLink removes one of the caller's links.
func (s *Service) removeLink(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	return noContent(w, s.unlink(r.Context(), c.user.ID, r.PathValue("id")))
}

// submitUnlink handles the account page's form that removes a link.
func (s *Service) submitUnlink(w http.ResponseWriter, r *http.Request, c caller) error {
	if err := s.unlink(r.Context(), c.user.ID, r.PostForm.Get("id")); err != nil {
		return err
	}

	return done(w, r, "link")
}
