package identity_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
)

func requireFactor(c *identity.Config) { c.AdminSecondFactor = true }

// refusesAll checks that a browser reaches nothing but the set-up of a second factor.
func refusesAll(t *testing.T, v *visitor) {
	t.Helper()

	shown := v.get("/account")
	require.Equal(t, http.StatusOK, shown.status)
	require.Contains(t, shown.text, "Administrators need a second factor")
	require.NotContains(t, shown.text, "Where you are signed in")

	for _, path := range []string{
		"/api/v1/auth/me", "/api/v1/users", "/api/v1/auth/sessions", "/api/v1/pat/v3/default", "/api/v1/audit", "/api/v1/auth/links",
	} {
		refused := v.get(path)
		require.Equal(t, http.StatusForbidden, refused.status, path)
		require.Contains(t, refused.text, "second_factor_required", path)
	}

	for _, path := range []string{"/account/password", "/account/sessions", "/account/totp/remove", "/account/links", "/account/consents"} {
		require.Equal(t, http.StatusForbidden, v.post(path, url.Values{"current": {password}, "password": {password}}).status, path)
	}

	require.Equal(t, http.StatusUnauthorized, v.post("/api/v1/auth/refresh", nil).status)
}

func TestService_adminSecondFactor_isSetUpFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t, requireFactor)

	require.Equal(t, http.StatusForbidden, p.admin.status)
	require.Equal(t, "second_factor_required", p.admin.body["code"])
	require.Empty(t, p.admin.header.Values("Set-Cookie"))

	v := newVisitor(t, p.server)
	in := v.post("/signin", url.Values{"username": {"admin"}, "password": {password}, "authorize": {"client_id=desktop"}})
	require.Equal(t, "/account", in.to, "no client gets a code before")
	refusesAll(t, v)

	started := v.post("/account/totp", url.Values{"password": {password}})
	require.Equal(t, http.StatusOK, started.status, started.text)
	secret := codePattern.FindStringSubmatch(started.text)[1]
	require.Equal(t, http.StatusOK, v.post("/account/totp/confirm", url.Values{"code": {codeOf(t, secret, 0)}}).status)

	require.Equal(t, http.StatusOK, v.get("/api/v1/users").status)
	require.Contains(t, v.get("/account").text, "Where you are signed in")

	p.admin = p.loginWith("admin", codeOf(t, secret, 1))
	require.Equal(t, http.StatusOK, p.admin.status)
	p.user("eve", nil)
	require.Equal(t, http.StatusOK, p.login("eve", password).status, "others need none")
}

func TestService_adminSecondFactor_oldCredentials(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	v := newVisitor(t, p.server)
	v.signIn("admin")

	token := p.as(p.admin, http.MethodGet, "/api/v1/pat/v3/default", nil).body["token"].(string)
	me := p.as(p.admin, http.MethodGet, "/api/v1/auth/me", nil).body
	id, sessionID := me["id"].(string), me["credential_id"].(string)

	strict := open(t, p.database, requireFactor)
	v.base = strict.URL
	p.server = strict

	alive := func() reply {
		return send(t, http.MethodPost, strict.URL+"/api/v1/auth/alive", map[string]any{
			"ids": []string{sessionID}, "accounts": []string{"account/" + id, "administrator/" + id},
		}, nil)
	}
	withToken := func() reply {
		return send(t, http.MethodGet, strict.URL+"/api/v1/auth/me", nil, map[string]string{"Authorization": "Bearer " + token})
	}

	require.Equal(t, http.StatusForbidden, p.as(p.admin, http.MethodGet, "/api/v1/users", nil).status)
	require.Equal(t, http.StatusForbidden, withToken().status)
	require.Empty(t, alive().body["alive"])
	require.Equal(t, []any{"account/" + id}, alive().body["accounts"], "API keys do not administer, and open the account")

	p.protect(p.admin)
	require.Equal(t, http.StatusOK, p.as(p.admin, http.MethodGet, "/api/v1/users", nil).status)
	require.Equal(t, http.StatusOK, withToken().status)
	require.Len(t, alive().body["alive"], 1)
	require.Len(t, alive().body["accounts"], 2)
}

// Who knows the password of an administrator with a passkey must not add a factor of their own.
func TestService_adminSecondFactor_existingOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t, requireFactor)
	p.exec(`INSERT INTO identity.passkeys (id, user_id, credential_id, name, credential)
		SELECT 'p1', id, 'k', 'Key', '{}' FROM identity.users`)

	v := newVisitor(t, p.server)
	require.Equal(t, "/account", v.signIn("admin").to)
	refusesAll(t, v)

	refused := v.post("/account/totp", url.Values{"password": {password}})
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Contains(t, refused.text, "sign in with your passkey")
	require.Equal(t, http.StatusForbidden, v.post("/account/totp/confirm", url.Values{"code": {"123456"}}).status)
	require.Equal(t, http.StatusSeeOther, v.post("/account/signout", url.Values{}).status)
}
