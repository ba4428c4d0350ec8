package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
	"everloop/companions/identity/accounts"
	"everloop/companions/identity/passkeys"
)

const byPasskey = "pop user mfa" // possession of the key, and the authenticator's verification of the person

// ceremony is the state between the two requests of a registration or a sign-in. It is sealed
// into the response to the first.
type ceremony struct {
	UserID string          `json:"u"`
	State  json.RawMessage `json:"s"`
	At     time.Time       `json:"t"`
}

// Purposes of a ceremony: the state of one purpose is invalid for the other.
const (
	registering = "passkey-register"
	asserting   = "passkey-sign-in"
)

func (s *Service) sealCeremony(purpose, userID string, state []byte) (string, error) {
	text, err := json.Marshal(ceremony{userID, state, time.Now()})
	if err != nil {
		return "", err
	}

	sealed, err := s.cfg.Box.Seal(purpose, text)

	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (s *Service) openCeremony(purpose, text string) (ceremony, error) {
	var c ceremony

	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		sealed, err = s.cfg.Box.Open(purpose, sealed)
	}

	if err != nil || json.Unmarshal(sealed, &c) != nil || time.Since(c.At) > challengeLife {
		return c, fault(http.StatusUnauthorized, "challenge_expired", "this took too long: begin again")
	}

	return c, nil
}

// party returns the relying party; a Fault if passkeys are not offered.
func (s *Service) party() (*passkeys.Party, error) {
	if s.passkeys == nil {
		return nil, fault(http.StatusConflict, "passkeys_unavailable",
			"passkeys need an IDENTITY_ISSUER with a host name, by https or on localhost")
	}

	return s.passkeys, nil
}

func passkeyRefused() *Fault {
	return fault(http.StatusUnauthorized, "passkey_refused", "this passkey was not accepted")
}

// holder returns a person with their passkeys.
func (s *Service) holder(ctx context.Context, q accounts.Querier, u user) (passkeys.User, error) {
	rows, _ := q.Query(ctx, `SELECT credential_id, credential FROM identity.passkeys WHERE user_id = $1 ORDER BY id LIMIT $2`,
		u.ID, maxPasskeys)
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[passkeys.Key])

	return passkeys.User{ID: u.ID, Username: u.Username, Name: u.Name, Keys: keys}, err
}

// beginPasskey returns the options of a new passkey.
func (s *Service) beginPasskey(w http.ResponseWriter, r *http.Request) error {
	c, err := s.settingUp(r)
	if err != nil {
		return err
	}

	party, err := s.party()
	if err != nil {
		return err
	}

	var in struct {
		Password string `json:"current_password"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}

	if err := s.checkFirstFactor(r.Context(), c); err != nil {
		return err
	}

	if err := s.confirmPassword(r, c, in.Password); err != nil {
		return err
	}

	of, err := s.holder(r.Context(), s.db, c.user)
	if err != nil {
		return err
	}

	options, state, err := party.BeginRegistration(of)
	if err != nil {
		return err
	}

	challenge, err := s.sealCeremony(registering, c.user.ID, state)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"options": options, "challenge": challenge})

	return nil
}

// finishPasskey stores a new passkey.
func (s *Service) finishPasskey(w http.ResponseWriter, r *http.Request) error {
	c, err := s.settingUp(r)
	if err != nil {
		return err
	}

	party, err := s.party()
	if err != nil {
		return err
	}

	var in struct {
		Challenge  string          `json:"challenge"`
		Name       string          `json:"name"`
		Credential json.RawMessage `json:"credential"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}

	if err := checkPasskeyName(in.Name); err != nil {
		return err
	}

	started, err := s.openCeremony(registering, in.Challenge)
	if err != nil {
		return err
	}

	if started.UserID != c.user.ID {
		return passkeyRefused()
	}

	if err := s.checkFirstFactor(r.Context(), c); err != nil {
		return err
	}

	key, err := party.Register(passkeys.User{ID: c.user.ID, Username: c.user.Username, Name: c.user.Name}, started.State, in.Credential)
	if errors.Is(err, passkeys.ErrRefused) {
		return passkeyRefused()
	}

	if err != nil {
		return err
	}

	made, err := s.keepPasskey(r.Context(), c, in.Name, key)
	if err != nil {
		return err
	}

	answer(w, http.StatusCreated, made)

	return nil
}

// beginPasskeyLogin returns the options of a sign-in. It stores nothing.
func (s *Service) beginPasskeyLogin(w http.ResponseWriter, _ *http.Request) error {
	party, err := s.party()
	if err != nil {
		return err
	}

	options, state, err := party.BeginLogin()
	if err != nil {
		return err
	}

	challenge, err := s.sealCeremony(asserting, "", state)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"options": options, "challenge": challenge})

	return nil
}

// passkeyLogin starts a session by a passkey. The authenticator has verified the person, so
// that no password and no code are required.
func (s *Service) passkeyLogin(w http.ResponseWriter, r *http.Request) error {
	party, err := s.party()
	if err != nil {
		return err
	}

	var in struct {
		Challenge  string          `json:"challenge"`
		Credential json.RawMessage `json:"credential"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}

	started, err := s.openCeremony(asserting, in.Challenge)
	if err != nil {
		return err
	}

	allowances := []allowance{s.addressAllowance(r)}
	if err := s.spendGuess(r.Context(), allowances); err != nil {
		return err
	}

	u, key, err := s.acceptPasskey(r.Context(), party, started, in.Credential)
	if errors.Is(err, passkeys.ErrRefused) {
		err := accounts.Audit(r.Context(), s.db, "", "auth.passkey_refused", "", map[string]string{"address": edge.Client(r).String()})
		return errors.Join(err, passkeyRefused())
	}

	if err != nil {
		return err
	}

	if err := s.returnGuess(r.Context(), allowances); err != nil {
		return err
	}

	return s.start(w, r, u, proof{AMR: byPasskey, Passkey: key})
}

// acceptPasskey checks an answer, spends its challenge and stores the key's counter. It also
// returns the id of the key's credential.
func (s *Service) acceptPasskey(
	ctx context.Context, party *passkeys.Party, started ceremony, answer []byte,
) (u user, keyID []byte, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		key, err := party.Login(started.State, answer, func(keyID []byte, userID string) (passkeys.User, error) {
			if len(sane([]string{userID})) == 0 {
				return passkeys.User{}, passkeys.ErrRefused
			}

			err := tx.QueryRow(ctx, `
				SELECT `+accounts.Columns+` FROM identity.passkeys p JOIN identity.users u ON u.id = p.user_id
				WHERE  p.credential_id = $1 AND u.id = $2 AND u.deleted_at IS NULL AND NOT u.disabled FOR UPDATE OF p`,
				keyID, userID).Scan(u.Columns()...)
			if errors.Is(err, pgx.ErrNoRows) {
				return passkeys.User{}, passkeys.ErrRefused
			}

			if err != nil {
				return passkeys.User{}, err
			}

			return s.holder(ctx, tx, u)
		})
		if err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `INSERT INTO identity.used_challenges (hash) VALUES ($1) ON CONFLICT DO NOTHING`,
			accounts.Hash(string(started.State)))
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return passkeys.ErrRefused
		}

		_, err = tx.Exec(ctx, `UPDATE identity.passkeys SET credential = $2, last_used_at = now() WHERE credential_id = $1`,
			key.ID, string(key.Data))
		keyID = key.ID

		return err
	})

	return u, keyID, err
}
