package identity_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/infra/identity"
)

const issuer = "https://id.example.org"

// service is an identity service that the test controls.
type service struct {
	*httptest.Server

	mu      sync.Mutex
	private map[string]ed25519.PrivateKey
	ended   map[string]bool
	rights  []string // of tokens
	old     bool     // it does not know the question about accounts
	away    bool
	asked   map[string]int // by path
}

func newService(t *testing.T) *service {
	t.Helper()

	s := &service{private: map[string]ed25519.PrivateKey{}, ended: map[string]bool{}, asked: map[string]int{}}
	s.addKey(t, "k1")
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)

	return s
}

func (s *service) addKey(t *testing.T, id string) {
	t.Helper()

	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()

	s.private[id] = private
}

func (s *service) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()

	change()
}

func (s *service) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.asked[r.URL.Path]++
	if s.away {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}

	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer})
	case "/.well-known/jwks.json":
		var set jose.JSONWebKeySet
		for id, private := range s.private {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: private.Public(), KeyID: id, Algorithm: "EdDSA", Use: "sig"})
		}

		_ = json.NewEncoder(w).Encode(set)
	case "/api/v1/auth/alive":
		var in struct{ IDs, Accounts []string }

		_ = json.NewDecoder(r.Body).Decode(&in)
		alive := []string{}

		for _, id := range in.IDs {
			if !s.ended[id] {
				alive = append(alive, id)
			}
		}

		if s.old {
			_ = json.NewEncoder(w).Encode(map[string]any{"alive": alive})
			return
		}

		accounts := []string{}

		for _, entry := range in.Accounts {
			if !s.ended[entry] {
				accounts = append(accounts, entry)
			}
		}

		_ = json.NewEncoder(w).Encode(map[string]any{"alive": alive, "accounts": accounts})
	case "/api/v1/auth/me":
		if r.Header.Get("Authorization") != "Bearer ep_good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "person", "username": "eve", "issuer": issuer, "credential_id": "token", "version": 1,
		})
	}
}

// token signs a token; change alters what a good one says.
func (s *service) token(t *testing.T, kid, kind string, change func(*jwt.Claims)) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()

	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: s.private[kid], KeyID: kid}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
	require.NoError(t, err)

	claims := jwt.Claims{
		Issuer: issuer, Subject: "person", Audience: jwt.Audience{"everloop"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}
	if change != nil {
		change(&claims)
	}

	raw, err := jwt.Signed(signer).Claims(claims).Claims(map[string]any{
		"sid": "session", "preferred_username": "eve", "rights": s.rights,
	}).Serialize()
	require.NoError(t, err)

	return raw
}

// users keeps one user a person.
type users struct{ deleted bool }

func (u users) IdentityUser(_ context.Context, p domain.Identity) (domain.User, bool, error) {
	return domain.User{ID: p.Issuer + "/" + p.Subject, Username: p.Username}, !u.deleted, nil
}

// clock is a time that the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.at = c.at.Add(d)
}

func newVerifier(t *testing.T, s *service) (*identity.Verifier, *clock) {
	t.Helper()

	c := &clock{at: time.Now()}

	return identity.NewVerifier(identity.NewClient(s.URL, c.now), users{}, c.now), c
}

func bearer(token string) auth.Credentials { return auth.Credentials{Bearer: token} }

func requireRefused(t *testing.T, v *identity.Verifier, token, name string) {
	t.Helper()
	_, err := v.Verify(t.Context(), bearer(token))
	require.Equal(t, domain.Unauthenticated, domain.AsError(err).Kind, name)
}

func TestVerifier_Verify_token(t *testing.T) {
	t.Parallel()
	s := newService(t)
	v, _ := newVerifier(t, s)
	caller, err := v.Verify(t.Context(), bearer(s.token(t, "k1", "at+jwt", nil)))
	require.NoError(t, err)
	require.Equal(t, issuer+"/person", caller.User.ID)
	require.Equal(t, "session", caller.Grant)
	require.NotNil(t, caller.ExpiresAt)

	ago := jwt.NewNumericDate(time.Now().Add(-time.Minute))

	for name, change := range map[string]func(*jwt.Claims){
		"expired":        func(c *jwt.Claims) { c.Expiry = ago },
		"without expiry": func(c *jwt.Claims) { c.Expiry = nil },
		"not yet valid":  func(c *jwt.Claims) { c.NotBefore = jwt.NewNumericDate(time.Now().Add(time.Hour)) },
		"foreign issuer": func(c *jwt.Claims) { c.Issuer = "https://evil.example" },
		"wrong audience": func(c *jwt.Claims) { c.Audience = jwt.Audience{"another"} },
		"no audience":    func(c *jwt.Claims) { c.Audience = nil },
		"no subject":     func(c *jwt.Claims) { c.Subject = "" },
	} {
		requireRefused(t, v, s.token(t, "k1", "at+jwt", change), name)
	}

	requireRefused(t, v, s.token(t, "k1", "JWT", nil), "an ID token")
	other := newService(t)
	requireRefused(t, v, other.token(t, "k1", "at+jwt", nil), "the key of another service")

	s.set(func() { s.ended["session"] = true })
	requireRefused(t, v, s.token(t, "k1", "at+jwt", nil), "the session has ended")
	alive, err := v.Alive(t.Context(), []string{caller.Grant})
	require.NoError(t, err)
	require.Empty(t, alive)
}

func TestVerifier_Verify_rightsOfAClient(t *testing.T) {
	t.Parallel()
	s := newService(t)
	v, _ := newVerifier(t, s)

	for _, rights := range [][]string{nil, {"chat"}, {"chat", "admin"}} {
		s.set(func() { s.rights = rights })

		caller, err := v.Verify(t.Context(), bearer(s.token(t, "k1", "at+jwt", nil)))
		require.NoError(t, err)
		require.Equal(t, rights, caller.Scopes)
	}
}

func TestVerifier_Verify_serviceAway(t *testing.T) {
	t.Parallel()
	s := newService(t)
	v, c := newVerifier(t, s)
	token := s.token(t, "k1", "at+jwt", nil)
	s.set(func() { s.away = true })

	_, err := v.Verify(t.Context(), bearer(token))
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind, "its keys were never seen")
	s.set(func() { s.away = false })
	c.pass(10 * time.Second)

	_, err = v.Verify(t.Context(), bearer(token))
	require.NoError(t, err)

	s.set(func() { s.away = true })
	c.pass(10 * time.Minute)

	caller, err := v.Verify(t.Context(), bearer(token))
	require.NoError(t, err, "its keys are cached")
	_, err = v.Alive(t.Context(), []string{caller.Grant})
	require.Error(t, err)
	_, err = v.Verify(t.Context(), bearer("ep_good"))
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
	c.pass(time.Hour)
	requireRefused(t, v, token, "expired")
}

func TestVerifier_Verify_rotation(t *testing.T) {
	t.Parallel()
	s := newService(t)
	v, c := newVerifier(t, s)
	_, err := v.Verify(t.Context(), bearer(s.token(t, "k1", "at+jwt", nil)))
	require.NoError(t, err)
	s.addKey(t, "k2")

	fresh := s.token(t, "k2", "at+jwt", nil)
	for range 20 {
		requireRefused(t, v, fresh, "no look for keys yet")
	}

	require.Equal(t, 1, s.asked["/.well-known/jwks.json"], "unknown keys do not make a look each")
	c.pass(6 * time.Second)

	_, err = v.Verify(t.Context(), bearer(fresh))
	require.NoError(t, err)
}

func TestVerifier_Verify_personalToken(t *testing.T) {
	t.Parallel()
	s := newService(t)
	v, _ := newVerifier(t, s)
	caller, err := v.Verify(t.Context(), bearer("ep_good"))
	require.NoError(t, err)
	require.Equal(t, issuer+"/person", caller.User.ID)
	require.Equal(t, "token", caller.Grant)
	requireRefused(t, v, "ep_wrong", "an unknown token")
	_, err = v.Verify(t.Context(), bearer("an-operators-own-key"))
	require.ErrorIs(t, err, auth.ErrNotMine)

	deleted := identity.NewVerifier(identity.NewClient(s.URL, nil), users{deleted: true}, nil)
	requireRefused(t, deleted, "ep_good", "deleted at the agent")
}
