package auth_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
)

// fakeKeys are keys in memory, which count how often they are asked.
type fakeKeys struct {
	mu      sync.Mutex
	byHash  map[[32]byte]domain.APIKey
	asked   int
	touched chan map[string]domain.KeyUse
	broken  error
	during  func() // runs while a look-up is on its way

	administrator bool // every user
}

func newFakeKeys() *fakeKeys {
	return &fakeKeys{byHash: map[[32]byte]domain.APIKey{}, touched: make(chan map[string]domain.KeyUse, 100)}
}

func (r *fakeKeys) KeyByHash(_ context.Context, hash []byte) (domain.User, domain.APIKey, bool, error) {
	r.mu.Lock()
	r.asked++
	key, ok := r.byHash[[32]byte(hash)]
	broken, during, administrator := r.broken, r.during, r.administrator
	r.mu.Unlock()

	if during != nil {
		during()
	}

	return domain.User{ID: key.UserID, Administrator: administrator}, key, ok, broken
}

func (r *fakeKeys) CredentialsAlive(_ context.Context, callers []domain.Caller) ([]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	alive := make([]bool, len(callers))
	for i, caller := range callers {
		alive[i] = r.alive(caller)
	}

	return alive, r.broken
}

func (r *fakeKeys) alive(caller domain.Caller) bool {
	if caller.User.Administrator && !r.administrator {
		return false
	}

	for _, key := range r.byHash {
		if key.ID == caller.KeyID {
			return true
		}
	}

	return caller.KeyID == ""
}

func (r *fakeKeys) TouchKeys(_ context.Context, used map[string]domain.KeyUse) error {
	r.touched <- used
	return nil
}

func (r *fakeKeys) EnsureBootstrap(_ context.Context, user domain.User, key domain.APIKey, hash []byte, force bool) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if len(r.byHash) > 0 && !force {
		return false, nil
	}

	r.byHash[[32]byte(hash)] = key

	return true, nil
}

// issue makes a key that the database knows.
func (r *fakeKeys) issue(user string) (plaintext string, key domain.APIKey) {
	key, plaintext, hash := auth.NewKey(user, "k")

	r.mu.Lock()
	defer r.mu.Unlock()

	r.byHash[hash] = key

	return plaintext, key
}

func (r *fakeKeys) revoke(plaintext string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	delete(r.byHash, auth.Hash(plaintext))
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

func set(t *testing.T, verifiers ...auth.Verifier) (*auth.Authenticator, *fakeKeys, *clock) {
	t.Helper()

	r, c := newFakeKeys(), &clock{at: time.Now()}
	a := auth.New(r, auth.Options{Verifiers: verifiers, Now: c.now})
	t.Cleanup(a.Close)

	return a, r, c
}

func bearer(token string) auth.Credentials { return auth.Credentials{Bearer: token} }

func TestNewKey(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}

	for range 1000 {
		key, plaintext, hash := auth.NewKey("u", "n")
		require.Regexp(t, regexp.MustCompile(`^el_[0-9A-Za-z]{32}$`), plaintext)
		require.False(t, seen[plaintext])
		seen[plaintext] = true
		require.Equal(t, auth.Hash(plaintext), hash)
		require.Equal(t, plaintext[:6]+"..."+plaintext[len(plaintext)-4:], key.Masked)
	}
}

func TestAuthenticator_Authenticate_sameErrorForAllWrongCredentials(t *testing.T) {
	t.Parallel()
	a, r, _ := set(t)
	revoked, _ := r.issue("u")
	r.revoke(revoked)

	for name, c := range map[string]auth.Credentials{
		"none": {}, "empty cookie": {Cookie: ""}, "no prefix": bearer("abc"), "unknown": bearer("el_unknown"),
		"revoked": bearer(revoked), "too long": bearer("el_" + strings.Repeat("x", 10_000)), "an unknown cookie": {Cookie: "c"},
	} {
		_, err := a.Authenticate(t.Context(), c)
		require.Equal(t, auth.Unauthorized().Error(), err.Error(), name)
		require.Equal(t, domain.Unauthenticated, domain.AsError(err).Kind, name)
	}
}

func TestAuthenticator_Authenticate_cachesKeys(t *testing.T) {
	t.Parallel()
	a, r, c := set(t)

	plaintext, key := r.issue("u")
	for range 5 {
		caller, err := a.Authenticate(t.Context(), bearer(plaintext))
		require.NoError(t, err)
		require.Equal(t, "u", caller.User.ID)
		require.Equal(t, key.ID, caller.KeyID)
	}

	require.Equal(t, 1, r.asked)
	c.pass(6 * time.Second)

	_, err := a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)
	require.Equal(t, 2, r.asked)

	t.Run("a revocation elsewhere is noticed within the cache's time", func(t *testing.T) {
		r.revoke(plaintext)
		_, err := a.Authenticate(t.Context(), bearer(plaintext))
		require.NoError(t, err)
		c.pass(6 * time.Second)

		_, err = a.Authenticate(t.Context(), bearer(plaintext))
		require.Error(t, err)
	})
}

func TestAuthenticator_Forget_countsAtOnce(t *testing.T) {
	t.Parallel()

	for name, forget := range map[string]func(*auth.Authenticator, domain.APIKey){
		"of the key": func(a *auth.Authenticator, k domain.APIKey) { a.Forget(t.Context(), domain.RightsChange{KeyID: k.ID}) },
		"of the user": func(a *auth.Authenticator, k domain.APIKey) {
			a.Forget(t.Context(), domain.RightsChange{UserID: k.UserID})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, r, _ := set(t)
			plaintext, key := r.issue("u")
			other, _ := r.issue("v")
			caller, err := a.Authenticate(t.Context(), bearer(plaintext))
			require.NoError(t, err)
			require.True(t, a.Alive(t.Context(), caller))
			r.revoke(plaintext)
			forget(a, key)
			_, err = a.Authenticate(t.Context(), bearer(plaintext))
			require.Error(t, err)
			require.False(t, a.Alive(t.Context(), caller))
			_, err = a.Authenticate(t.Context(), bearer(other))
			require.NoError(t, err)
		})
	}

	t.Run("also for a look-up that was on its way", func(t *testing.T) {
		t.Parallel()
		a, r, _ := set(t)
		plaintext, key := r.issue("u")
		r.during = func() { r.revoke(plaintext); a.Forget(t.Context(), domain.RightsChange{KeyID: key.ID}) }
		_, err := a.Authenticate(t.Context(), bearer(plaintext))
		require.NoError(t, err, "it was valid when it was looked up")
		_, err = a.Authenticate(t.Context(), bearer(plaintext))
		require.Error(t, err, "but it is not remembered")
	})
}

func TestAuthenticator_Authenticate_expiryEndsCacheEntry(t *testing.T) {
	t.Parallel()
	a, r, c := set(t)
	plaintext, key := r.issue("u")
	soon := c.now().Add(time.Second)
	key.ExpiresAt = &soon
	r.byHash[auth.Hash(plaintext)] = key
	_, err := a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)
	c.pass(2 * time.Second)

	_, _ = a.Authenticate(t.Context(), bearer(plaintext))
	require.Equal(t, 2, r.asked, "the database decides about an expired key")
}

func TestAuthenticator_Authenticate_storesUseOncePerMinute(t *testing.T) {
	t.Parallel()
	a, r, c := set(t)

	plaintext, key := r.issue("u")
	for range 3 {
		_, err := a.Authenticate(t.Context(), bearer(plaintext))
		require.NoError(t, err)
	}

	require.Equal(t, map[string]domain.KeyUse{key.ID: {At: c.now()}}, <-r.touched)
	c.pass(59 * time.Second)

	_, err := a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)
	a.Close()
	require.Empty(t, r.touched)
	c.pass(time.Second)

	_, err = a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)
	require.Contains(t, <-r.touched, key.ID)
}

func TestAuthenticator_Alive_administratorWhoIsNoneAnyMore(t *testing.T) {
	t.Parallel()
	a, r, _ := set(t)
	plaintext, key := r.issue("u")
	r.administrator = true
	caller, err := a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)
	require.True(t, a.Alive(t.Context(), caller))

	r.administrator = false

	a.Forget(t.Context(), domain.RightsChange{UserID: key.UserID})
	require.False(t, a.Alive(t.Context(), caller))

	again, err := a.Authenticate(t.Context(), bearer(plaintext)) // its key is remembered again
	require.NoError(t, err)
	require.True(t, a.Alive(t.Context(), again))
	require.False(t, a.Alive(t.Context(), caller))
}

// scoped accepts every token as an administrator's, with the token as its scope.
type scoped struct{}

func (scoped) Verify(_ context.Context, c auth.Credentials) (domain.Caller, error) {
	return domain.Caller{User: domain.User{ID: "a", Administrator: true}, Scopes: strings.Fields(c.Bearer)}, nil
}

func TestAuthenticator_Authenticate_scopesBoundAdministrators(t *testing.T) {
	t.Parallel()
	a, r, _ := set(t, scoped{})
	r.administrator = true

	for name, tc := range map[string]struct {
		scopes []string
		want   bool
	}{
		"unrestricted": {nil, true}, "reading": {[]string{"sessions:read"}, false}, "all but admin": {[]string{"chat", "solutions"}, false},
		"admin": {[]string{"admin"}, true}, "admin and another": {[]string{"chat", "admin"}, true},
	} {
		plaintext, key := r.issue("root")
		key.Scopes = tc.scopes
		r.byHash[auth.Hash(plaintext)] = key

		for range 2 { // the second time from the cache
			caller, err := a.Authenticate(t.Context(), bearer(plaintext))
			require.NoError(t, err)
			require.Equal(t, tc.want, caller.User.Administrator, name)
			require.True(t, a.Alive(t.Context(), caller))

			caller, err = a.Authenticate(t.Context(), bearer(strings.Join(tc.scopes, " ")+" "))
			require.NoError(t, err)
			require.Equal(t, tc.want, caller.User.Administrator, "by a verifier: %s", name)
		}
	}
}

func TestAuthenticator_Authenticate_accountThatCannotBeKnown(t *testing.T) {
	t.Parallel()

	var away error

	r, c := newFakeKeys(), &clock{at: time.Now()}
	a := auth.New(r, auth.Options{Now: c.now, Known: func(domain.User) error { return away }})
	t.Cleanup(a.Close)

	plaintext, _ := r.issue("u")
	caller, err := a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)

	away = domain.Unavailablef("the identity service", errors.New("away"))

	require.False(t, a.Alive(t.Context(), caller))
	c.pass(6 * time.Second)

	_, err = a.Authenticate(t.Context(), bearer(plaintext))
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
}

func TestAuthenticator_Authenticate_storeUnavailable(t *testing.T) {
	t.Parallel()
	a, r, c := set(t)
	plaintext, _ := r.issue("u")
	caller, err := a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)

	r.broken = domain.Unavailablef("the database", errors.New("away"))

	c.pass(6 * time.Second)

	_, err = a.Authenticate(t.Context(), bearer(plaintext))
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
	require.True(t, a.Alive(t.Context(), caller), "who is in may stay")
}

// cookies knows one session cookie and one kind of token.
type cookies struct{}

func (cookies) Verify(_ context.Context, c auth.Credentials) (domain.Caller, error) {
	switch {
	case c.Cookie == "good":
		return domain.Caller{User: domain.User{ID: "by cookie"}}, nil
	case strings.Count(c.Bearer, ".") == 2:
		return domain.Caller{}, auth.Unauthorized()
	}

	return domain.Caller{}, auth.ErrNotMine
}

func TestOtherCredentials(t *testing.T) {
	t.Parallel()
	a, r, _ := set(t, cookies{})
	plaintext, _ := r.issue("u")
	caller, err := a.Authenticate(t.Context(), auth.Credentials{Cookie: "good"})
	require.NoError(t, err)
	require.Equal(t, "by cookie", caller.User.ID)
	require.True(t, a.Alive(t.Context(), caller))
	_, err = a.Authenticate(t.Context(), auth.Credentials{Bearer: "el_wrong", Cookie: "good"})
	require.Error(t, err, "an explicit token is not backed by a cookie")
	_, err = a.Authenticate(t.Context(), bearer("a.b.c"))
	require.Error(t, err)
	_, err = a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)
}

func TestScopes(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		has  []string
		asks auth.Scope
		want bool
	}{
		"no scopes, no restriction":        {nil, auth.Admin, true},
		"no scopes may manage keys":        {nil, auth.Unrestricted, true},
		"its own":                          {[]string{"chat"}, auth.Chat, true},
		"another":                          {[]string{"chat"}, auth.Files, false},
		"nothing asked":                    {[]string{"chat"}, auth.AnyScope, true},
		"writing includes reading":         {[]string{"sessions:write"}, auth.SessionsRead, true},
		"reading does not include writing": {[]string{"sessions:read"}, auth.SessionsWrite, false},
		"a restricted key makes no keys":   {[]string{"admin", "chat"}, auth.Unrestricted, false},
	} {
		require.Equal(t, tc.want, auth.Allows(domain.Caller{Scopes: tc.has}, tc.asks), name)
	}
}

func TestEnsureBootstrap(t *testing.T) {
	t.Parallel()
	a, _, _ := set(t)
	made, plaintext, err := a.EnsureBootstrap(t.Context(), "")
	require.NoError(t, err)
	require.True(t, made)
	_, err = a.Authenticate(t.Context(), bearer(plaintext))
	require.NoError(t, err)

	made, again, err := a.EnsureBootstrap(t.Context(), "")
	require.NoError(t, err)
	require.False(t, made)
	require.Empty(t, again)

	const operators = "an-operators-own-key-of-32-chars"

	made, returned, err := a.EnsureBootstrap(t.Context(), operators)
	require.NoError(t, err)
	require.True(t, made)
	require.Empty(t, returned, "a given key is never returned")
	_, err = a.Authenticate(t.Context(), bearer(operators))
	require.NoError(t, err, "it needs no prefix")

	for _, bad := range []string{
		"short", operators[:15], "a key of enough characters with a space", "line\nbreak-in-a-key-of-enough-characters",
		"ümläute-überall-in-a-key-of-32-characters", strings.Repeat("x", 600),
	} {
		_, _, err := a.EnsureBootstrap(t.Context(), bad)
		require.Error(t, err)
		require.NotContains(t, err.Error(), bad)
	}
}
