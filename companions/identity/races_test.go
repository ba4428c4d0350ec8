package identity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"everloop/companions/identity"
)

// onRightGuess makes the database run a statement when a guess is returned: a password,
// code or passkey was right, and the request has not done yet what it needs that for.
func (p *place) onRightGuess(statement string) {
	p.t.Helper()
	p.exec(`
		CREATE FUNCTION identity.on_right_guess() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + statement + `; RETURN NULL; END $$;
		CREATE TRIGGER on_right_guess AFTER UPDATE ON identity.guesses
		FOR EACH ROW WHEN (NEW.at = OLD.at) EXECUTE FUNCTION identity.on_right_guess()`)
}

// resetEve is what the database does when an administrator sets a password of eve: that of
// the user later. It ends the sessions.
const resetEve = `
	UPDATE identity.users SET password_hash = (SELECT password_hash FROM identity.users WHERE username = 'later') WHERE username = 'eve';
	UPDATE identity.sessions SET ended_at = now() WHERE user_id = (SELECT id FROM identity.users WHERE username = 'eve')`

const sessionsOfEve = `
	SELECT count(*) FROM identity.sessions s JOIN identity.users u ON u.id = s.user_id WHERE u.username = 'eve' AND s.ended_at IS NULL`

// newReset returns a place with the users eve and later, whose passwords differ.
func newReset(t *testing.T) *place {
	t.Helper()

	p := newPlace(t, nil)
	p.user("eve", nil)
	p.user("later", map[string]any{"password": "a later password"})

	return p
}

func TestService_login_passwordSetMeanwhile(t *testing.T) {
	t.Parallel()

	t.Run("by a program", func(t *testing.T) {
		t.Parallel()
		p := newReset(t)
		p.onRightGuess(resetEve)

		in := p.login("eve", password)
		require.Equal(t, http.StatusUnauthorized, in.status, in.body)
		require.Equal(t, "unauthorized", in.body["code"])
		require.Zero(t, p.count(sessionsOfEve))
		require.Contains(t, p.actions(), "auth.refused")
		require.Equal(t, http.StatusOK, p.login("eve", "a later password").status)
	})

	t.Run("by a page", func(t *testing.T) {
		t.Parallel()
		p := newReset(t)
		p.onRightGuess(resetEve)

		in := newVisitor(t, p.server).signIn("eve")
		require.Equal(t, http.StatusUnauthorized, in.status)
		require.Contains(t, in.text, "User name or password is wrong.")
		require.Zero(t, p.count(sessionsOfEve))
	})

	t.Run("before the code is asked for", func(t *testing.T) {
		t.Parallel()
		p := newReset(t)
		secret, _ := p.protect(p.login("eve", password))
		p.onRightGuess(resetEve)

		v := newVisitor(t, p.server)
		challenge := v.signIn("eve").hidden(t, "challenge")
		in := v.post("/signin/code", url.Values{"challenge": {challenge}, "code": {codeOf(t, secret, 1)}})
		require.Equal(t, http.StatusUnauthorized, in.status)
		require.Zero(t, p.count(sessionsOfEve))
	})

	t.Run("while the code is checked", func(t *testing.T) {
		t.Parallel()
		p := newReset(t)
		secret, _ := p.protect(p.login("eve", password))
		v := newVisitor(t, p.server)
		challenge := v.signIn("eve").hidden(t, "challenge")

		p.onRightGuess(resetEve)

		in := v.post("/signin/code", url.Values{"challenge": {challenge}, "code": {codeOf(t, secret, 1)}})
		require.Equal(t, http.StatusUnauthorized, in.status)
		require.Zero(t, p.count(sessionsOfEve))
	})
}

func TestService_changePassword_setMeanwhile(t *testing.T) {
	t.Parallel()
	p := newReset(t)
	in := p.login("eve", password)
	p.onRightGuess(resetEve)

	changed := p.as(in, http.MethodPost, "/api/v1/auth/password",
		map[string]string{"current_password": password, "new_password": "a password of eve"})
	require.Equal(t, http.StatusUnauthorized, changed.status, changed.body)
	require.Equal(t, "password_wrong", changed.body["code"])
	require.NotContains(t, p.actions(), "user.password")
	require.Equal(t, http.StatusUnauthorized, p.login("eve", "a password of eve").status)
	require.Equal(t, http.StatusOK, p.login("eve", "a later password").status, "what the administrator has set holds")
}

func TestService_changePassword_sessionEndedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.user("eve", nil)
	in := p.login("eve", password)
	token, _ := p.as(in, http.MethodGet, "/api/v1/pat/v3/default", nil).body["token"].(string)
	require.NotEmpty(t, token)
	p.onRightGuess(`
		UPDATE identity.sessions SET ended_at = now() WHERE user_id = (SELECT id FROM identity.users WHERE username = 'eve');
		UPDATE identity.personal_tokens SET revoked_at = now()`)

	for credential, headers := range map[string]map[string]string{
		"session": bearer(in), "personal token": {"Authorization": "Bearer " + token},
	} {
		p.exec(`UPDATE identity.sessions SET ended_at = NULL`)
		p.exec(`UPDATE identity.personal_tokens SET revoked_at = NULL`)

		changed := send(t, http.MethodPost, p.server.URL+"/api/v1/auth/password",
			map[string]string{"current_password": password, "new_password": "a password of eve"}, headers)
		require.Equal(t, http.StatusUnauthorized, changed.status, credential)
		require.Equal(t, "unauthorized", changed.body["code"], credential)
	}

	require.NotContains(t, p.actions(), "user.password")
	require.Equal(t, http.StatusUnauthorized, p.login("eve", "a password of eve").status)
}

// A code that is spent does what it is for, whether or not the guess can be returned.
func TestService_totp_guessNotReturned(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.user("eve", nil)
	in := p.login("eve", password)
	started := p.as(in, http.MethodPost, "/api/v1/auth/totp", map[string]string{"current_password": password})
	require.Equal(t, http.StatusOK, started.status, started.body)

	secret, _ := started.body["secret"].(string)
	v := newVisitor(t, p.server)
	p.exec(`
		CREATE FUNCTION identity.no_return() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no guess is returned'; END $$;
		CREATE TRIGGER no_return BEFORE UPDATE ON identity.guesses
		FOR EACH ROW WHEN (NEW.at = OLD.at AND NEW.key LIKE 'code%') EXECUTE FUNCTION identity.no_return()`)

	confirmed := p.as(in, http.MethodPost, "/api/v1/auth/totp/confirm", map[string]string{"code": codeOf(t, secret, 0)})
	require.Equal(t, http.StatusOK, confirmed.status, confirmed.body)

	codes, _ := confirmed.body["recovery_codes"].([]any)
	require.Len(t, codes, 10)

	challenge := v.signIn("eve").hidden(t, "challenge")
	code, _ := codes[0].(string)
	require.Equal(t, http.StatusSeeOther, v.post("/signin/code", url.Values{"challenge": {challenge}, "code": {code}}).status)
}

// withoutSigningKey runs a request while no access token can be signed.
func (p *place) withoutSigningKey(request func()) {
	p.t.Helper()
	p.exec(`UPDATE identity.signing_keys SET retired_at = now()`)
	request()
	p.exec(`UPDATE identity.signing_keys SET retired_at = NULL`)
}

// A refresh that cannot be answered leaves the refresh token as it was.
func TestService_refresh_retriedAfterAFault(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	refresh := func(cookie string) reply {
		return send(t, http.MethodPost, p.server.URL+"/api/v1/auth/refresh", nil, map[string]string{"Cookie": cookie})
	}
	refreshCookie := func(r reply) string {
		for _, line := range r.header.Values("Set-Cookie") {
			if strings.HasPrefix(line, "everloop_refresh=") {
				cookie, _, _ := strings.Cut(line, ";")
				return cookie
			}
		}

		return ""
	}
	first := refreshCookie(p.admin)

	p.withoutSigningKey(func() {
		failed := refresh(first)
		require.Equal(t, http.StatusServiceUnavailable, failed.status, failed.body)
		require.Empty(t, failed.header.Values("Set-Cookie"))
	})

	second := refresh(first)
	require.Equal(t, http.StatusOK, second.status, second.body)
	require.Equal(t, http.StatusOK, p.me(second))
	require.Equal(t, "refresh_reused", refresh(first).body["code"])
	require.Equal(t, http.StatusUnauthorized, p.me(second))
}

// A code and a refresh token that cannot be answered stay as they were.
func TestProvider_tokens_retriedAfterAFault(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	person := newPerson(t, p.server)
	person.signIn()

	var (
		token    *oauth2.Token
		err      error
		verifier = oauth2.GenerateVerifier()
		code     = person.authorize(verifier).Get("code")
	)

	p.withoutSigningKey(func() {
		_, err = person.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		refusedWith(t, err, "server_error")
	})

	token, err = person.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	require.NoError(t, err)

	p.withoutSigningKey(func() {
		_, err = person.refresh(token.RefreshToken)
		refusedWith(t, err, "server_error")
	})

	next, err := person.refresh(token.RefreshToken)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, person.me(next.AccessToken))
}

// authenticator holds one passkey.
type authenticator struct {
	key    *ecdsa.PrivateKey
	id     []byte
	userID string
}

// newAuthenticator registers a passkey of a user in the database, as the library keeps it.
func newAuthenticator(p *place, userID string) authenticator {
	p.t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(p.t, err)

	point, err := key.PublicKey.Bytes() // 4, x, y
	require.NoError(p.t, err)

	// A COSE key (RFC 9053): {1: EC2, 3: ES256, -1: P-256, -2: x, -3: y}.
	public := slices.Concat([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, point[1:33], []byte{0x22, 0x58, 32}, point[33:])
	a := authenticator{key, []byte("the id of the key"), userID}

	credential, err := json.Marshal(webauthn.Credential{ID: a.id, PublicKey: public})
	require.NoError(p.t, err)
	p.exec(`INSERT INTO identity.passkeys (id, user_id, credential_id, name, credential) VALUES ('k', $1, $2, 'key', $3)`,
		userID, a.id, string(credential))

	return a
}

// login signs the user in with the passkey.
func (a authenticator) login(p *place) reply {
	p.t.Helper()

	started := send(p.t, http.MethodPost, p.server.URL+"/api/v1/auth/passkeys/login/begin", map[string]any{}, nil)
	require.Equal(p.t, http.StatusOK, started.status, started.body)

	options, _ := started.body["options"].(map[string]any)
	public, _ := options["publicKey"].(map[string]any)

	client, err := json.Marshal(map[string]any{"type": "webauthn.get", "challenge": public["challenge"], "origin": "http://localhost"})
	require.NoError(p.t, err)

	site, clientHash := sha256.Sum256([]byte("localhost")), sha256.Sum256(client)
	data := append(site[:], 1|4, 0, 0, 0, 0) // the person was present and verified; no counter
	digest := sha256.Sum256(append(slices.Clone(data), clientHash[:]...))

	signature, err := ecdsa.SignASN1(rand.Reader, a.key, digest[:])
	require.NoError(p.t, err)

	text := base64.RawURLEncoding.EncodeToString

	return send(p.t, http.MethodPost, p.server.URL+"/api/v1/auth/passkeys/login", map[string]any{
		"challenge": started.body["challenge"],
		"credential": map[string]any{"id": text(a.id), "rawId": text(a.id), "type": "public-key", "response": map[string]string{
			"clientDataJSON": text(client), "authenticatorData": text(data), "signature": text(signature),
			"userHandle": text([]byte(a.userID)),
		}},
	}, nil)
}

func TestService_passkeyLogin_removedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *identity.Config) { c.Issuer = "http://localhost" })
	a := newAuthenticator(p, p.user("eve", nil))

	in := a.login(p)
	require.Equal(t, http.StatusOK, in.status, in.body)
	require.Equal(t, 1, p.count(sessionsOfEve))

	p.onRightGuess(`DELETE FROM identity.passkeys`)

	in = a.login(p)
	require.Equal(t, http.StatusUnauthorized, in.status, in.body)
	require.Equal(t, "passkey_refused", in.body["code"])
	require.Equal(t, 1, p.count(sessionsOfEve))
}

// Two tabs in which a person signs in for the first time find one account.
func TestUpstream_firstSignIn_twoTabs(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))

	conn, err := pgx.Connect(t.Context(), p.database)
	require.NoError(t, err)

	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()

	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_lock(hashtextextended('identity/email/eve@example.org', 0))`)
	require.NoError(t, err)

	tabs := make(chan page, 2)

	for i := range cap(tabs) {
		v := newVisitor(t, p.server)
		to := "/signin/callback/corp?" + e.answer(v.get("/signin/with/corp").to).Encode()

		go func() { tabs <- v.get(to) }()

		// Both have found no account by the time that the first makes it.
		require.Eventually(t, func() bool {
			return p.count(`
				SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == i+1
		}, time.Minute, 10*time.Millisecond)
	}

	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`)
	require.NoError(t, err)

	for range cap(tabs) {
		in := <-tabs
		require.Equal(t, http.StatusSeeOther, in.status, in.text)
	}

	require.Equal(t, 1, p.count(`SELECT count(*) FROM identity.external_accounts`))
	require.Equal(t, 2, p.count(sessionsOfEve))
}

func TestUpstream_linkRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	require.Equal(t, http.StatusSeeOther, e.signIn(newVisitor(t, p.server)).status)

	// The account is found, and the link is removed before the session is made.
	p.exec(`
		CREATE FUNCTION identity.unlink() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN DELETE FROM identity.external_accounts; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER unlink AFTER UPDATE ON identity.external_accounts
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION identity.unlink()`)
	require.Equal(t, http.StatusUnauthorized, e.signIn(newVisitor(t, p.server)).status)
	require.Equal(t, 1, p.count(sessionsOfEve))
}
