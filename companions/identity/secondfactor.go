package identity

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
	"everloop/companions/identity/accounts"
	"everloop/companions/identity/passwords"
	"everloop/companions/identity/totp"
)

// Authentication methods, as `amr` values.
const (
	byPassword = "pwd"
	byCode     = "pwd otp mfa" // with a password and a code

	byProvider     = "" // at another provider: the method is unknown here
	byProviderCode = "otp"
)

// maxCode bounds a code as it is typed.
const maxCode = 64

func sealedTOTP(userID string) string { return "totp/" + userID }

// hasSecondFactor reports whether a user needs a code after the password.
func (s *Service) hasSecondFactor(ctx context.Context, userID string) (bool, error) {
	var on bool

	err := s.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM identity.totp WHERE user_id = $1 AND confirmed_at IS NOT NULL)`,
		userID).Scan(&on)

	return on, err
}

// codeRefused returns the fault of a wrong code and of a used one, which are not distinguished.
func codeRefused() *Fault {
	return fault(http.StatusUnauthorized, "code_refused", "this code is wrong, or was used before")
}

// useCode accepts a code of a user's app, or a recovery code. Each is valid once: a used code
// of an app is rejected for the rest of its validity.
func (s *Service) useCode(r *http.Request, userID, code string) error {
	if code == "" || len(code) > maxCode {
		return invalid("body.code", "must have 1 to %d characters", maxCode)
	}

	allowances := s.codeAllowances(r, userID, code)
	if err := s.spendGuess(r.Context(), allowances); err != nil {
		return err
	}

	ctx, held := r.Context(), false

	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) (err error) {
		if held, err = s.takeCode(ctx, tx, userID, totp.Normal(code)); err != nil || held {
			return err
		}

		return accounts.Audit(ctx, tx, userID, "auth.code_wrong", userID, map[string]string{"address": edge.Client(r).String()})
	})
	if err != nil {
		return err
	}

	if !held {
		return codeRefused()
	}

	s.tryReturnGuess(ctx, allowances)

	return nil
}

// takeCode spends a code of a confirmed app, or a recovery code of its user.
func (s *Service) takeCode(ctx context.Context, tx pgx.Tx, userID, code string) (bool, error) {
	secret, last, err := s.totpSecret(ctx, tx, userID, true)
	if err != nil || secret == "" {
		return false, err
	}

	if totp.IsRecovery(code) {
		tag, err := tx.Exec(ctx, `
			UPDATE identity.recovery_codes SET used_at = now() WHERE user_id = $1 AND hash = $2 AND used_at IS NULL`,
			userID, accounts.Hash(code))
		if err != nil || tag.RowsAffected() == 0 {
			return false, err
		}

		return true, accounts.Audit(ctx, tx, userID, "totp.recovery_code", userID, nil)
	}

	step, held := totp.Step(secret, code, time.Now())
	if !held || step <= last {
		return false, nil
	}

	_, err = tx.Exec(ctx, `UPDATE identity.totp SET last_step = $2 WHERE user_id = $1`, userID, step)

	return err == nil, err
}

// totpSecret returns the secret of an app and its last accepted step, and locks the row; "" if
// the user has none.
func (s *Service) totpSecret(ctx context.Context, tx pgx.Tx, userID string, confirmed bool) (secret string, last int64, err error) {
	var sealed []byte

	err = tx.QueryRow(ctx, `
		SELECT sealed, last_step FROM identity.totp WHERE user_id = $1 AND (confirmed_at IS NOT NULL) = $2 FOR UPDATE`,
		userID, confirmed).Scan(&sealed, &last)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0, nil
	}

	if err != nil {
		return "", 0, err
	}

	plain, err := s.cfg.Box.Open(sealedTOTP(userID), sealed)
	if err != nil {
		return "", 0, fault(http.StatusConflict, "totp_unreadable",
			"the secret of the authenticator app was sealed with another ENCRYPTION_KEY: an administrator must remove it")
	}

	return string(plain), last, nil
}

// totpState is a user's second factor as they see it.
type totpState struct {
	Enabled       bool `json:"enabled"`
	RecoveryCodes int  `json:"recovery_codes_left"`
}

func (s *Service) totpOf(ctx context.Context, userID string) (state totpState, err error) {
	err = s.db.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM identity.totp WHERE user_id = $1 AND confirmed_at IS NOT NULL),
		       (SELECT count(*) FROM identity.recovery_codes WHERE user_id = $1 AND used_at IS NULL)`, userID).Scan(
		&state.Enabled, &state.RecoveryCodes)

	return state, err
}

// showTOTP reports whether the caller has a second factor.
func (s *Service) showTOTP(w http.ResponseWriter, r *http.Request) error {
	c, err := s.settingUp(r)
	if err != nil {
		return err
	}

	state, err := s.totpOf(r.Context(), c.user.ID)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, state)

	return nil
}

// recently is the maximum age of a sign-in that replaces the password as confirmation.
const recently = 15 * time.Minute

// confirmPassword checks the password of a caller who changes how they sign in. A person
// without a password signs in elsewhere: then the caller needs a recent sign-in, so that
// neither the token of a program nor an unattended browser suffices.
func (s *Service) confirmPassword(r *http.Request, c caller, password string) error {
	var has, recent bool

	err := s.db.QueryRow(r.Context(), `
		SELECT password_hash <> '', EXISTS (
		       SELECT 1 FROM identity.sessions
		       WHERE  id = $2 AND client_id = '' AND signed_in_at > now() - make_interval(secs => $3))
		FROM   identity.users WHERE id = $1`, c.user.ID, c.sessionID, recently.Seconds()).Scan(&has, &recent)

	switch {
	case err != nil:
		return err
	case !has && !recent:
		return fault(http.StatusForbidden, "recent_sign_in_required", "this needs a sign-in of the last %d minutes: sign out and in again",
			int(recently.Minutes()))
	case !has:
		return nil
	}

	_, err = s.checkCurrent(r, c, password)

	return err
}

// passwordWrong returns the fault of a wrong password of a signed-in caller. It must not look
// like the end of the session.
func passwordWrong() *Fault {
	return fault(http.StatusUnauthorized, "password_wrong", "the current password is wrong")
}

// checkCurrent checks the password that confirms a change, and returns the hash that it was
// compared with.
func (s *Service) checkCurrent(r *http.Request, c caller, password string) (string, error) {
	if password == "" || len(password) > passwords.Max {
		return "", invalid("body.current_password", "must have 1 to %d bytes", passwords.Max)
	}

	_, hash, err := s.checkLogin(r, c.user.Username, password)
	if f, known := errors.AsType[*Fault](err); known && f.Status == http.StatusUnauthorized {
		return "", passwordWrong()
	}

	return hash, err
}

// beginTOTP creates the secret of an app. It is not required until it is confirmed.
func (s *Service) beginTOTP(r *http.Request, c caller, password string) (totp.Key, error) {
	ctx := r.Context()

	if err := s.checkFirstFactor(ctx, c); err != nil {
		return totp.Key{}, err
	}

	if err := s.confirmPassword(r, c, password); err != nil {
		return totp.Key{}, err
	}

	key, err := totp.New("Everloop", c.user.Username)
	if err != nil {
		return totp.Key{}, err
	}

	sealed, err := s.cfg.Box.Seal(sealedTOTP(c.user.ID), []byte(key.Secret))
	if err != nil {
		return totp.Key{}, err
	}

	return key, pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO identity.totp AS t (user_id, sealed)
			SELECT u.id, $2 FROM identity.users u WHERE u.id = $1 AND u.deleted_at IS NULL AND NOT u.disabled
			ON CONFLICT (user_id) DO UPDATE SET sealed = $2, created_at = now() WHERE t.confirmed_at IS NULL`, c.user.ID, sealed)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return fault(http.StatusConflict, "totp_enabled", "an authenticator app is set up already: remove it first")
		}

		return accounts.Audit(ctx, tx, c.user.ID, "totp.begin", c.user.ID, nil)
	})
}

// setUpTOTP returns the secret of a new app.
func (s *Service) setUpTOTP(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[struct {
		Password string `json:"current_password"`
	}](w, r, s.settingUp)
	if err != nil {
		return err
	}

	key, err := s.beginTOTP(r, c, in.Password)
	if err != nil {
		return err
	}

	svg, err := key.SVG()
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]string{"secret": key.Secret, "otpauth_url": key.URL, "qr_svg": svg})

	return nil
}

// finishTOTP turns the second factor on, by a code of the app, and returns the recovery
// codes, which are never shown again.
func (s *Service) finishTOTP(r *http.Request, c caller, code string) ([]string, error) {
	if code == "" || len(code) > maxCode {
		return nil, invalid("body.code", "must have 1 to %d characters", maxCode)
	}

	if err := s.checkFirstFactor(r.Context(), c); err != nil {
		return nil, err
	}

	allowances := s.codeAllowances(r, c.user.ID, code)
	if err := s.spendGuess(r.Context(), allowances); err != nil {
		return nil, err
	}

	ctx, codes := r.Context(), totp.RecoveryCodes()

	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		secret, _, err := s.totpSecret(ctx, tx, c.user.ID, false)
		if err != nil {
			return err
		}

		if secret == "" {
			return fault(http.StatusConflict, "totp_not_begun", "begin with POST /api/v1/auth/totp")
		}

		step, held := totp.Step(secret, totp.Normal(code), time.Now())
		if !held {
			return codeRefused()
		}

		var batch pgx.Batch
		batch.Queue(`UPDATE identity.totp SET confirmed_at = now(), last_step = $2 WHERE user_id = $1`, c.user.ID, step)

		for _, recovery := range codes {
			batch.Queue(`INSERT INTO identity.recovery_codes (user_id, hash) VALUES ($1, $2)`,
				c.user.ID, accounts.Hash(totp.Normal(recovery)))
		}

		if err := errors.Join(tx.SendBatch(ctx, &batch).Close(), prove(ctx, tx, c.sessionID)); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.user.ID, "totp.enable", c.user.ID, nil)
	})
	if err != nil {
		return nil, err
	}

	// The second factor is active: the codes must be shown now.
	s.tryReturnGuess(ctx, allowances)

	return codes, nil
}

// confirmTOTP activates the app and returns the recovery codes.
func (s *Service) confirmTOTP(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[struct {
		Code string `json:"code"`
	}](w, r, s.settingUp)
	if err != nil {
		return err
	}

	codes, err := s.finishTOTP(r, c, in.Code)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"recovery_codes": codes})

	return nil
}

// dropTOTP removes a second factor on behalf of actor.
func (s *Service) dropTOTP(ctx context.Context, actor, userID string) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM identity.totp WHERE user_id = $1`, userID)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return fault(http.StatusConflict, "totp_not_enabled", "no authenticator app is set up")
		}

		if err := revokeTokens(ctx, tx, userID); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, actor, "totp.remove", userID, nil)
	})
}

// endTOTP removes the caller's second factor, with password and code.
func (s *Service) endTOTP(r *http.Request, c caller, password, code string) error {
	on, err := s.hasSecondFactor(r.Context(), c.user.ID)
	if err != nil {
		return err
	}

	if !on {
		return fault(http.StatusConflict, "totp_not_enabled", "no authenticator app is set up")
	}

	if err := s.confirmPassword(r, c, password); err != nil {
		return err
	}

	if err := s.useCode(r, c.user.ID, code); err != nil {
		return err
	}

	return s.dropTOTP(r.Context(), c.user.ID, c.user.ID)
}

// removeTOTP removes the caller's second factor.
func (s *Service) removeTOTP(w http.ResponseWriter, r *http.Request) error {
	c, in, err := input[struct {
		Password string `json:"current_password"`
		Code     string `json:"code"`
	}](w, r, s.person)
	if err != nil {
		return err
	}

	return noContent(w, s.endTOTP(r, c, in.Password, in.Code))
}

// removeUserTOTP removes the lost second factor of a user, for administrators.
func (s *Service) removeUserTOTP(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	shown, err := s.account(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}

	return noContent(w, s.dropTOTP(r.Context(), c.actor(), shown.ID))
}
