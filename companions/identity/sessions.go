package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
	"everloop/companions/identity/accounts"
	"everloop/companions/identity/passwords"
	"everloop/companions/identity/tokens"
)

// maxSessions bounds the open sessions of one user; a further sign-in ends the oldest.
const maxSessions = 100

// tokenAnswer is the response to a sign-in and to a refresh.
type tokenAnswer struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
}

// checkLogin returns the user with that password, and the hash that the password was compared
// with. Wrong guesses are counted by address and user name, and all take the same time.
func (s *Service) checkLogin(r *http.Request, username, password string) (u user, hash string, err error) {
	ctx := r.Context()

	if username == "" || utf8.RuneCountInString(username) > 128 || strings.ContainsRune(username, 0) || !utf8.ValidString(username) {
		return user{}, "", invalid("body.username", "must have 1 to 128 characters")
	}

	if password == "" || len(password) > passwords.Max {
		return user{}, "", invalid("body.password", "must have 1 to %d bytes", passwords.Max)
	}

	allowances, err := s.passwordAllowances(r, username)
	if err != nil {
		return user{}, "", err
	}

	if err := s.spendGuess(ctx, allowances); err != nil {
		return user{}, "", err
	}

	u, err = s.oneUser(ctx, `, u.password_hash FROM identity.users u
		WHERE lower(u.username) = lower($1) AND u.deleted_at IS NULL`, &hash, username)
	if _, missing := errors.AsType[*Fault](err); err != nil && !missing {
		return user{}, "", err
	}

	held, err := s.hasher.Matches(ctx, password, hash)
	if err != nil {
		return user{}, "", err
	}

	if !held {
		err := accounts.Audit(ctx, s.db, u.ID, "auth.refused", u.ID, map[string]string{"address": edge.Client(r).String()})
		return user{}, "", errors.Join(err, unauthorized())
	}

	if err := s.returnGuess(ctx, allowances); err != nil {
		return user{}, "", err
	}

	if u.Disabled { // only after the correct password
		err := accounts.Audit(ctx, s.db, u.ID, "auth.refused", u.ID, map[string]string{
			"address": edge.Client(r).String(), "reason": "disabled",
		})

		return user{}, "", errors.Join(err, fault(http.StatusForbidden, "account_disabled", "an administrator has disabled this account"))
	}

	return u, hash, nil
}

// login starts a session. It also requires a code if the user has a second factor.
func (s *Service) login(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Code     string `json:"code"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}

	u, hash, err := s.checkLogin(r, in.Username, in.Password)
	if err != nil {
		return err
	}

	by := proof{AMR: byPassword, Password: accounts.Hash(hash)}

	second, err := s.hasSecondFactor(r.Context(), u.ID)
	if err != nil {
		return err
	}

	if !second {
		return s.start(w, r, u, by)
	}

	if in.Code == "" {
		return fault(http.StatusUnauthorized, "code_required", "send the code of the authenticator app, or a recovery code, as code, too")
	}

	if err := s.useCode(r, u.ID, in.Code); err != nil {
		return err
	}

	by.AMR = byCode

	return s.start(w, r, u, by)
}

// signIn is a new session of a browser or a program.
type signIn struct {
	id, cookie, refresh string
	expires             time.Time
}

// start creates the session of an authenticated user, and responds with its access token and
// cookies.
func (s *Service) start(w http.ResponseWriter, r *http.Request, u user, by proof) error {
	if s.cfg.AdminSecondFactor && u.Administrator && by.AMR == byPassword {
		return s.secondFactorRequired()
	}

	made, err := s.openSession(r, u, by)
	if err != nil {
		return err
	}

	token, err := s.accessToken(r.Context(), s.db, u, made.id, made.expires)
	if err != nil {
		return err
	}

	s.setCookie(w, r, sessionCookie, made.cookie, made.expires)
	s.answerToken(w, r, token, made.refresh, made.expires)

	return nil
}

// openSession creates the session of a user, unless the credential of their proof was replaced
// or removed after its check.
func (s *Service) openSession(r *http.Request, u user, by proof) (signIn, error) {
	ctx := r.Context()
	in := signIn{
		id: accounts.NewID(), cookie: cookiePrefix + rand.Text() + rand.Text(), refresh: refreshPrefix + rand.Text() + rand.Text(),
		expires: time.Now().Add(s.cfg.SessionTTL),
	}
	agent := strings.ToValidUTF8(strings.ReplaceAll(r.UserAgent(), "\x00", ""), "")
	agent = strings.ToValidUTF8(agent[:min(len(agent), 200)], "") // the cut may split a character

	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var (
			alive bool
			hash  string
		)

		// The lock serializes the sign-in with the end of the account and with changes of its
		// password.
		err := tx.QueryRow(ctx, `SELECT deleted_at IS NULL AND NOT disabled, password_hash FROM identity.users WHERE id = $1 FOR UPDATE`,
			u.ID).Scan(&alive, &hash)
		if err != nil {
			return err
		}

		if !alive {
			return unauthorized()
		}

		if err := by.check(ctx, tx, u.ID, hash); err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `
			UPDATE identity.sessions SET ended_at = now(), ended_by = 'too many sessions'
			WHERE  id IN (SELECT id FROM identity.sessions WHERE user_id = $1 AND ended_at IS NULL AND client_id = ''
			              ORDER BY id DESC OFFSET $2)`, u.ID, maxSessions-1); err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `
			INSERT INTO identity.sessions (id, user_id, cookie_hash, address, user_agent, amr, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			in.id, u.ID, accounts.Hash(in.cookie), edge.Client(r).String(), agent, by.AMR, in.expires); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `INSERT INTO identity.refresh_tokens (hash, session_id) VALUES ($1, $2)`, accounts.Hash(in.refresh), in.id)
		if err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, u.ID, "auth.sign_in", in.id, map[string]string{"address": edge.Client(r).String(), "by": by.AMR})
	})
	if f, refused := errors.AsType[*Fault](err); refused {
		err = errors.Join(s.auditRefused(r, u, by), f)
	}

	return in, err
}

// accessToken signs the access token of a session.
func (s *Service) accessToken(
	ctx context.Context, q accounts.Querier, u user, sessionID string, expires time.Time,
) (tokenAnswer, error) {
	token, life, err := s.keys.AccessToken(ctx, q, u, sessionID, expires, tokens.ClientClaims{})

	return tokenAnswer{token, "Bearer", int(life.Seconds())}, err
}

func (s *Service) answerToken(w http.ResponseWriter, r *http.Request, token tokenAnswer, refresh string, expires time.Time) {
	s.setCookie(w, r, refreshCookie, refresh, expires)
	answer(w, http.StatusOK, token)
}

// refresh replaces a refresh token and returns a new access token. A reused token ends the
// session, because it may be stolen. The access token is signed in the transaction that
// replaces the refresh token, because clients would repeat the old one after a later error.
func (s *Service) refresh(w http.ResponseWriter, r *http.Request) error {
	cookie, err := s.cookie(r, refreshCookie)
	if err != nil || len(cookie.Value) > accounts.MaxCredential {
		return unauthorized()
	}
	// Programs send no Origin; a page always does, and SameSite blocks other sites.
	if r.Header.Get("Origin") != "" {
		if err := s.checkOrigin(r); err != nil {
			return err
		}
	}

	ctx, next := r.Context(), refreshPrefix+rand.Text()+rand.Text()

	var (
		u       user
		id      string
		expires time.Time
		reused  bool
		token   tokenAnswer
	)

	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var used *time.Time

		err := tx.QueryRow(ctx, `
			SELECT `+accounts.Columns+`, t.session_id, t.used_at, s.expires_at
			FROM   identity.refresh_tokens t JOIN identity.sessions s ON s.id = t.session_id JOIN identity.users u ON u.id = s.user_id
			WHERE  t.hash = $1 AND s.client_id = '' AND s.ended_at IS NULL AND s.expires_at > now()
			       AND u.deleted_at IS NULL AND NOT u.disabled AND (NOT $2 OR `+accounts.WithSecondFactor+`)
			FOR UPDATE OF t, s`, accounts.Hash(cookie.Value), s.cfg.AdminSecondFactor).Scan(
			append(u.Columns(), &id, &used, &expires)...)
		if errors.Is(err, pgx.ErrNoRows) {
			return unauthorized()
		}

		if err != nil {
			return err
		}

		if reused = used != nil; reused {
			if err := accounts.EndSession(ctx, tx, id, "refresh reused"); err != nil {
				return err
			}

			return accounts.Audit(ctx, tx, u.ID, "auth.refresh_reused", id, map[string]string{"address": edge.Client(r).String()})
		}

		if err := accounts.ReplaceRefresh(ctx, tx, accounts.Hash(cookie.Value), next, id); err != nil {
			return err
		}

		token, err = s.accessToken(ctx, tx, u, id, expires)

		return err
	})
	if err != nil {
		return err
	}

	if reused {
		s.clearCookies(w, r)
		return fault(http.StatusUnauthorized, "refresh_reused", "this refresh token was used before: the session has ended, sign in again")
	}

	s.answerToken(w, r, token, next, expires)

	return nil
}

// logout ends the caller's session, or with `everywhere` all of the caller's.
func (s *Service) logout(w http.ResponseWriter, r *http.Request) error {
	c, err := s.settingUp(r)
	if err != nil {
		return err
	}

	var in struct {
		Everywhere bool `json:"everywhere"`
	}
	if r.ContentLength != 0 {
		if err := decode(w, r, &in); err != nil {
			return err
		}
	}

	if c.sessionID == "" && !in.Everywhere {
		return fault(http.StatusConflict, "no_session", "a personal token is not a session: end all with everywhere, or revoke the token")
	}

	if err := s.signOut(r.Context(), c, in.Everywhere); err != nil {
		return err
	}

	s.clearCookies(w, r)
	w.WriteHeader(http.StatusNoContent)

	return nil
}

// signOut ends the caller's session, or all of the caller's.
func (s *Service) signOut(ctx context.Context, c caller, everywhere bool) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if everywhere {
			if err := closeAccess(ctx, tx, c.user.ID, "logout everywhere"); err != nil {
				return err
			}

			return accounts.Audit(ctx, tx, c.user.ID, "auth.logout_everywhere", c.user.ID, nil)
		}

		if err := accounts.EndSession(ctx, tx, c.sessionID, "logout"); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.user.ID, "auth.logout", c.sessionID, nil)
	})
}

// maxAlive bounds the credentials of one request.
const maxAlive = 200

// accountOf and administratorOf are prefixes of [Service.alive] entries that name a user.
const (
	accountOf       = "account/"
	administratorOf = "administrator/"
)

// alive returns which of the given sessions, personal tokens and accounts are valid: account/ID
// is an account that is neither disabled nor deleted, administrator/ID is also an
// administrator's. It requires no credential: an id has too many random bits to be guessed, and
// the answer names no person.
func (s *Service) alive(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		IDs      []string `json:"ids"`
		Accounts []string `json:"accounts"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}

	switch {
	case len(in.IDs) > maxAlive:
		return invalid("body.ids", "must have at most %d entries", maxAlive)
	case len(in.Accounts) > maxAlive:
		return invalid("body.accounts", "must have at most %d entries", maxAlive)
	}

	rows, _ := s.db.Query(r.Context(), `
		SELECT s.id FROM identity.sessions s JOIN identity.users u ON u.id = s.user_id
		WHERE  s.id = ANY ($1) AND s.ended_at IS NULL AND s.expires_at > now() AND u.deleted_at IS NULL AND NOT u.disabled
		AND    (NOT $2 OR `+accounts.WithSecondFactor+`)
		UNION ALL
		SELECT t.id FROM identity.personal_tokens t JOIN identity.users u ON u.id = t.user_id
		WHERE  t.id = ANY ($1) AND t.revoked_at IS NULL AND t.expires_at > now() AND u.deleted_at IS NULL AND NOT u.disabled
		AND    (NOT $2 OR `+accounts.HasSecondFactor+`)`, sane(in.IDs), s.cfg.AdminSecondFactor)

	alive, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	accounts, err := s.openAccounts(r.Context(), sane(in.Accounts))
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"alive": append([]string{}, alive...), "accounts": accounts})

	return nil
}

// openAccounts returns the valid entries.
func (s *Service) openAccounts(ctx context.Context, entries []string) ([]string, error) {
	if len(entries) == 0 {
		return []string{}, nil
	}

	rows, _ := s.db.Query(ctx, `
		SELECT a.entry
		FROM   unnest($1::text[]) AS a (entry) JOIN identity.users u ON u.id = split_part(a.entry, '/', 2)
		WHERE  u.deleted_at IS NULL AND NOT u.disabled
		AND    (a.entry = $2 || u.id OR a.entry = $3 || u.id AND u.administrator AND (NOT $4 OR `+accounts.HasSecondFactor+`))`,
		entries, accountOf, administratorOf, s.cfg.AdminSecondFactor)

	open, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return append([]string{}, open...), err
}

// sane removes entries that cannot be ids and that PostgreSQL would reject.
func sane(ids []string) []string {
	var out []string

	for _, id := range ids {
		if utf8.ValidString(id) && !strings.ContainsRune(id, 0) && len(id) <= 64 {
			out = append(out, id)
		}
	}

	return out
}
