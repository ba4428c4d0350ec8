package identity

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"everloop/companions/identity/accounts"
)

// Bounds of a page of a list.
const (
	usualRecords = 100 // of the audit log
	maxPage      = 1000
	maxQuery     = 256 // bytes of a search
)

// accountPage is one page of accounts.
type accountPage struct {
	Items []user `json:"items"`
	Total int    `json:"total"` // of all pages
	Next  string `json:"next_after,omitempty"`
}

// listUsers lists accounts, oldest first, a page at a time. `q` matches a part of user name,
// name or e-mail, case-insensitively.
func (s *Service) listUsers(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	limit, err := pageLimit(r, maxPage)
	if err != nil {
		return err
	}

	query := r.URL.Query()

	q, after := query.Get("q"), query.Get("after")
	if len(q) > maxQuery || !plainText(q) {
		return invalid("query.q", "must be text of at most %d bytes", maxQuery)
	}

	if len(after) > maxID || !plainText(after) {
		return invalid("query.after", "must be the id of a user")
	}

	found, err := s.findUsers(r.Context(), q, after, limit)
	if err != nil {
		return err
	}

	if err := accounts.Audit(r.Context(), s.db, c.actor(), "user.list", "", nil); err != nil {
		return err
	}

	answer(w, http.StatusOK, found)

	return nil
}

const matching = `u.deleted_at IS NULL AND ($1 = '' OR strpos(lower(u.username), lower($1)) > 0
	OR strpos(lower(u.name), lower($1)) > 0 OR strpos(lower(u.email), lower($1)) > 0)`

func (s *Service) findUsers(ctx context.Context, q, after string, limit int) (accountPage, error) {
	out := accountPage{Items: []user{}}

	err := s.db.QueryRow(ctx, `SELECT count(*) FROM identity.users u WHERE `+matching, q).Scan(&out.Total)
	if err != nil {
		return out, err
	}

	rows, _ := s.db.Query(ctx, `SELECT `+accounts.Columns+` FROM identity.users u WHERE `+matching+` AND u.id > $2 ORDER BY u.id LIMIT $3`,
		q, after, limit+1)

	users, err := pgx.CollectRows(rows, pgx.RowToStructByName[user])
	if err != nil {
		return out, err
	}

	if len(users) > limit {
		users = users[:limit]
		out.Next = users[limit-1].ID
	}

	out.Items = append(out.Items, users...)

	return out, nil
}

// maxID bounds an id of this service in a request.
const maxID = 64

// plainText reports whether PostgreSQL can store a text.
func plainText(text string) bool {
	for _, r := range text {
		if r == 0 {
			return false
		}
	}

	return utf8.ValidString(text)
}

func pageLimit(r *http.Request, usual int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return usual, nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, invalid("query.limit", "must be a number from 1 to %d", maxPage)
	}

	return n, nil
}

// account is a user as administrators see them.
type account struct {
	user
	Sessions       int  `json:"sessions"`        // number of open sessions
	PersonalTokens int  `json:"personal_tokens"` // number of valid ones
	HasPassword    bool `json:"has_password"`
	TOTP           bool `json:"totp"` // a second factor is required
}

// showUser shows one account.
func (s *Service) showUser(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	shown, err := s.account(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}

	if err := accounts.Audit(r.Context(), s.db, c.actor(), "user.read", shown.ID, nil); err != nil {
		return err
	}

	answer(w, http.StatusOK, shown)

	return nil
}

func (s *Service) account(ctx context.Context, id string) (account, error) {
	if len(sane([]string{id})) == 0 {
		return account{}, noUser()
	}

	var a account

	err := s.db.QueryRow(ctx, `
		SELECT `+accounts.Columns+`,
		       (SELECT count(*) FROM identity.sessions s WHERE s.user_id = u.id AND s.ended_at IS NULL AND s.expires_at > now()),
		       (SELECT count(*) FROM identity.personal_tokens t WHERE t.user_id = u.id AND t.revoked_at IS NULL AND t.expires_at > now()),
		       u.password_hash <> '', EXISTS (SELECT 1 FROM identity.totp t WHERE t.user_id = u.id AND t.confirmed_at IS NOT NULL)
		FROM   identity.users u WHERE u.id = $1 AND u.deleted_at IS NULL`, id).Scan(
		append(a.Columns(), &a.Sessions, &a.PersonalTokens, &a.HasPassword, &a.TOTP)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return account{}, noUser()
	}

	return a, err
}

func noUser() *Fault {
	return fault(http.StatusNotFound, "user_not_found", "this user does not exist")
}

// accountChange contains the fields that an administrator can change; nil fields are unchanged.
type accountChange struct {
	Name          *string `json:"name"`
	Email         *string `json:"email"`
	Administrator *bool   `json:"administrator"`
	Disabled      *bool   `json:"disabled"`
}

func (in accountChange) check() error {
	if in.Name != nil {
		if err := checkName("body.name", *in.Name, 256); err != nil {
			return err
		}
	}

	if in.Email != nil {
		return checkEmail(*in.Email)
	}

	return nil
}

// apply changes an account, and returns the names of the changed fields.
func (in accountChange) apply(u *user) []string {
	var changed []string

	set := func(name string, differs bool) {
		if differs {
			changed = append(changed, name)
		}
	}

	if in.Name != nil {
		set("name", u.Name != *in.Name)
		u.Name = *in.Name
	}

	if in.Email != nil {
		set("email", u.Email != *in.Email)
		u.Email = *in.Email
	}

	if in.Administrator != nil {
		set("administrator", u.Administrator != *in.Administrator)
		u.Administrator = *in.Administrator
	}

	if in.Disabled != nil {
		set("disabled", u.Disabled != *in.Disabled)
		u.Disabled = *in.Disabled
	}

	return changed
}

// changeUser changes name, e-mail, administrator right or state of an account. Disabling an
// account ends its sessions and tokens in the same transaction; withdrawing the right ends its
// sessions, whose access tokens contain the right.
func (s *Service) changeUser(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[accountChange](w, r, s.administrator)
	if err != nil {
		return err
	}

	if err := in.check(); err != nil {
		return err
	}

	ctx := r.Context()

	var u user

	err = s.changeAccount(ctx, r.PathValue("id"), func(tx pgx.Tx, found user, last bool) error {
		u = found

		changed := in.apply(&u)
		if len(changed) == 0 {
			return nil
		}

		if last && (!u.Administrator || u.Disabled) {
			return lastAdministrator()
		}

		u.Version++

		if err := s.keepAccount(ctx, tx, u, found.Administrator && !u.Administrator); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.actor(), "user.update", u.ID, changesOf(u, changed))
	})
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, u)

	return nil
}

// keepAccount stores a changed account, and ends sessions and tokens that it may no longer
// have.
func (s *Service) keepAccount(ctx context.Context, tx pgx.Tx, u user, lostRight bool) error {
	_, err := tx.Exec(ctx, `
		UPDATE identity.users SET name = $2, email = $3, administrator = $4, disabled = $5, version = $6 WHERE id = $1`,
		u.ID, u.Name, u.Email, u.Administrator, u.Disabled, u.Version)

	switch {
	case err != nil:
		return err
	case u.Disabled:
		return closeAccess(ctx, tx, u.ID, "user disabled")
	case lostRight:
		return accounts.EndSessions(ctx, tx, u.ID, "", "right lost")
	}

	return nil
}

// changesOf returns for the audit log which fields of an account have changed, and the new
// right and state.
func changesOf(u user, changed []string) map[string]string {
	details := map[string]string{}
	for _, field := range changed {
		details[field] = "changed"
	}

	for field, on := range map[string]bool{"administrator": u.Administrator, "disabled": u.Disabled} {
		if _, differs := details[field]; differs {
			details[field] = strconv.FormatBool(on)
		}
	}

	return details
}

func lastAdministrator() *Fault {
	return fault(
		http.StatusConflict,
		"last_administrator",
		"the last administrator can neither be removed, nor disabled, nor lose the right",
	)
}

// changeAccount runs a change of an account in a transaction that locks it. last reports that
// there is no other administrator; two changes of administrators are serialized.
func (s *Service) changeAccount(ctx context.Context, id string, change func(tx pgx.Tx, u user, last bool) error) error {
	if len(sane([]string{id})) == 0 {
		return noUser()
	}

	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `
			SELECT id FROM identity.users WHERE administrator AND NOT disabled AND deleted_at IS NULL ORDER BY id FOR UPDATE`)

		administrators, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}

		var u user

		err = tx.QueryRow(ctx, `SELECT `+accounts.Columns+` FROM identity.users u WHERE u.id = $1 AND u.deleted_at IS NULL FOR UPDATE`,
			id).Scan(u.Columns()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return noUser()
		}

		if err != nil {
			return err
		}

		return change(tx, u, len(administrators) == 1 && administrators[0] == id)
	})
}

// closeAccess ends all sessions and personal tokens of a user.
func closeAccess(ctx context.Context, tx pgx.Tx, userID, why string) error {
	if err := accounts.EndSessions(ctx, tx, userID, "", why); err != nil {
		return err
	}

	return revokeTokens(ctx, tx, userID)
}

// setPassword sets a user's password, and ends their sessions and personal tokens.
func (s *Service) setPassword(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[struct {
		Password string `json:"password"`
	}](w, r, s.administrator)
	if err != nil {
		return err
	}

	if err := checkPassword("body.password", in.Password); err != nil {
		return err
	}

	ctx := r.Context()

	hash, err := s.hasher.Hash(ctx, in.Password)
	if err != nil {
		return err
	}

	return noContent(w, s.changeAccount(ctx, r.PathValue("id"), func(tx pgx.Tx, u user, _ bool) error {
		if _, err := tx.Exec(ctx, `UPDATE identity.users SET password_hash = $2 WHERE id = $1`, u.ID, hash); err != nil {
			return err
		}

		if err := closeAccess(ctx, tx, u.ID, "password set"); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.actor(), "user.set_password", u.ID, nil)
	}))
}

// removeWays removes passkeys or links of a user whose account may be compromised.
func (s *Service) removeWays(action, statement string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.administrator(r)
		if err != nil {
			return err
		}

		ctx := r.Context()

		return noContent(w, s.changeAccount(ctx, r.PathValue("id"), func(tx pgx.Tx, u user, _ bool) error {
			if _, err := tx.Exec(ctx, statement, u.ID); err != nil {
				return err
			}

			if err := revokeTokens(ctx, tx, u.ID); err != nil {
				return err
			}

			return accounts.Audit(ctx, tx, c.actor(), action, u.ID, nil)
		}))
	}
}

const (
	dropPasskeys = `DELETE FROM identity.passkeys WHERE user_id = $1`
	dropLinks    = `DELETE FROM identity.external_accounts WHERE user_id = $1`
	dropConsents = `DELETE FROM identity.consents WHERE user_id = $1`
)

// deleteUser closes an account and ends its sessions and personal tokens. The last
// administrator cannot be deleted.
func (s *Service) deleteUser(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	ctx := r.Context()

	return noContent(w, s.changeAccount(ctx, r.PathValue("id"), func(tx pgx.Tx, u user, last bool) error {
		if last {
			return lastAdministrator()
		}

		if _, err := tx.Exec(ctx, `UPDATE identity.users SET deleted_at = now(), password_hash = '' WHERE id = $1`, u.ID); err != nil {
			return err
		}

		if err := closeAccess(ctx, tx, u.ID, "user deleted"); err != nil {
			return err
		}

		for _, statement := range []string{
			`DELETE FROM identity.totp WHERE user_id = $1`, dropPasskeys, dropConsents,
		} {
			if _, err := tx.Exec(ctx, statement, u.ID); err != nil {
				return err
			}
		}

		return accounts.Audit(ctx, tx, c.actor(), "user.delete", u.ID, nil)
	}))
}
