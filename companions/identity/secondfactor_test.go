package identity_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	library "github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
)

// codeOf returns the code of an app some steps after the current one.
func codeOf(t *testing.T, secret string, steps int) string {
	t.Helper()

	code, err := library.GenerateCode(secret, time.Now().Add(time.Duration(steps)*30*time.Second))
	require.NoError(t, err)

	return code
}

// protect sets up an app for a user. It uses the code of this step, so that of the next
// one is left.
func (p *place) protect(in reply) (secret string, recovery []string) {
	p.t.Helper()

	started := p.as(in, http.MethodPost, "/api/v1/auth/totp", map[string]string{"current_password": password})
	require.Equal(p.t, http.StatusOK, started.status, started.body)

	secret, _ = started.body["secret"].(string)
	require.Contains(p.t, started.body["otpauth_url"], "otpauth://totp/Everloop:")
	require.Contains(p.t, started.body["qr_svg"], "<svg")

	confirmed := p.as(in, http.MethodPost, "/api/v1/auth/totp/confirm", map[string]string{"code": codeOf(p.t, secret, 0)})
	require.Equal(p.t, http.StatusOK, confirmed.status, confirmed.body)

	list, _ := confirmed.body["recovery_codes"].([]any)
	for _, one := range list {
		code, _ := one.(string)
		recovery = append(recovery, code)
	}

	require.Len(p.t, recovery, 10)

	return secret, recovery
}

func (p *place) loginWith(username, code string) reply {
	p.t.Helper()

	return send(p.t, http.MethodPost, p.server.URL+"/api/v1/auth/login",
		map[string]string{"username": username, "password": password, "code": code}, nil)
}

func TestService_totp_neededAtLogin(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.user("eve", nil)
	in := p.login("eve", password)

	begin := func(secret string) reply {
		return p.as(in, http.MethodPost, "/api/v1/auth/totp", map[string]string{"current_password": secret})
	}
	require.Equal(t, "password_wrong", begin("not this one").body["code"])

	early := p.as(in, http.MethodPost, "/api/v1/auth/totp/confirm", map[string]string{"code": "123456"})
	require.Equal(t, "totp_not_begun", early.body["code"])

	// What is not confirmed is not asked for.
	require.Equal(t, http.StatusOK, begin(password).status)
	require.Equal(t, http.StatusOK, p.login("eve", password).status)

	secret, _ := p.protect(in)

	require.Equal(t, "totp_enabled", begin(password).body["code"])

	required := p.login("eve", password)
	require.Equal(t, http.StatusUnauthorized, required.status)
	require.Equal(t, "code_required", required.body["code"])
	require.Empty(t, required.header.Values("Set-Cookie"))
	require.Equal(t, "unauthorized", p.login("eve", "a wrong password").body["code"], "the password comes first")

	require.Equal(t, "code_refused", p.loginWith("eve", "abcdef").body["code"])
	require.Equal(t, http.StatusOK, p.loginWith("eve", codeOf(t, secret, 1)).status)
	require.Equal(t, "code_refused", p.loginWith("eve", codeOf(t, secret, 0)).body["code"], "an older one than the last used")

	state := p.as(in, http.MethodGet, "/api/v1/auth/totp", nil)
	require.Equal(t, map[string]any{"enabled": true, "recovery_codes_left": float64(10)}, state.body)
}

func TestService_totp_codeCountsOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.user("eve", nil)
	secret, recovery := p.protect(p.login("eve", password))

	for _, code := range []string{codeOf(t, secret, 1), strings.ToLower(recovery[3])} {
		var wg sync.WaitGroup

		statuses := make([]int, 4)
		for i := range statuses {
			wg.Go(func() { statuses[i] = p.loginWith("eve", code).status })
		}

		wg.Wait()

		accepted := 0

		for _, status := range statuses {
			if status == http.StatusOK {
				accepted++
			} else {
				require.Equal(t, http.StatusUnauthorized, status)
			}
		}

		require.Equal(t, 1, accepted, "of the same code at the same time")
		require.Equal(t, "code_refused", p.loginWith("eve", code).body["code"])
	}
}

func TestService_totp_throttled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.user("eve", nil)
	secret, _ := p.protect(p.login("eve", password))
	slow := newGuesser(t, p)

	refused := 0

	for range 4 {
		if r := slow("000000"); r.status == http.StatusTooManyRequests {
			require.Equal(t, "too_many_guesses", r.body["code"])
			require.NotEmpty(t, r.header.Get("Retry-After"))

			refused++
		}
	}

	require.GreaterOrEqual(t, refused, 1)

	if r := slow(codeOf(t, secret, 1)); r.status != http.StatusTooManyRequests {
		require.Equal(t, http.StatusOK, r.status, "the allowance fills with time alone")
	}
}

// newGuesser tries codes as one address that may be wrong twice in a minute.
func newGuesser(t *testing.T, p *place) func(code string) reply {
	t.Helper()

	server := open(t, p.database, func(c *identity.Config) { c.UserGuesses = 2 })

	return func(code string) reply {
		return send(t, http.MethodPost, server.URL+"/api/v1/auth/login",
			map[string]string{"username": "eve", "password": password, "code": code}, nil)
	}
}

func TestService_totp_removal(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	id := p.user("eve", nil)
	in := p.login("eve", password)
	remove := func(secret, code string) reply {
		return p.as(in, http.MethodPost, "/api/v1/auth/totp/remove", map[string]string{"current_password": secret, "code": code})
	}

	require.Equal(t, "totp_not_enabled", remove(password, "123456").body["code"])

	secret, recovery := p.protect(in)
	require.Equal(t, "password_wrong", remove("not this one", codeOf(t, secret, 1)).body["code"])
	require.Equal(t, "code_refused", remove(password, "000000").body["code"])
	require.Equal(t, "invalid_request", remove(password, "").body["code"])
	require.Equal(t, http.StatusNoContent, remove(password, recovery[0]).status)
	require.Equal(t, http.StatusOK, p.login("eve", password).status)

	p.protect(in)
	require.Equal(t, true, p.as(p.admin, http.MethodGet, "/api/v1/users/"+id, nil).body["totp"])
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id+"/totp", nil).status)
	require.Equal(t, "totp_not_enabled", p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id+"/totp", nil).body["code"])
	require.Equal(t, http.StatusOK, p.login("eve", password).status)
	require.Subset(t, p.actions(), []string{"totp.begin", "totp.enable", "totp.recovery_code", "totp.remove", "auth.code_wrong"})
}

func TestService_totp_secretsAreNotStoredPlain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	secret, recovery := p.protect(p.admin)

	conn, err := pgx.Connect(t.Context(), p.database)
	require.NoError(t, err)

	defer conn.Close(context.WithoutCancel(t.Context()))

	var dump string
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT (SELECT string_agg(t::text || encode(t.sealed, 'escape'), ' ') FROM identity.totp t)
		    || (SELECT string_agg(c::text || encode(c.hash, 'escape'), ' ') FROM identity.recovery_codes c)
		    || (SELECT string_agg(a::text, ' ') FROM identity.audit a)`).Scan(&dump))
	require.NotContains(t, dump, secret)

	for _, code := range recovery {
		require.NotContains(t, dump, strings.ReplaceAll(code, "-", ""))
		require.NotContains(t, dump, code)
	}
}
