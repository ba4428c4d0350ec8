package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
)

// location returns the place of the request that an error names.
func location(r reply) any {
	list, _ := r.body["errors"].([]any)
	if len(list) == 0 {
		return nil
	}

	first, _ := list[0].(map[string]any)

	return first["location"]
}

// TestService_namesFieldsAsTheyAreSent sends each field of each body with a wrong type.
func TestService_namesFieldsAsTheyAreSent(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *identity.Config) { c.Issuer = "http://localhost" })
	id := p.user("eve", nil)

	for path, fields := range map[string][]string{
		"POST /api/v1/auth/login":               {"username", "password", "code"},
		"POST /api/v1/auth/logout":              {"everywhere"},
		"POST /api/v1/auth/password":            {"current_password", "new_password"},
		"POST /api/v1/auth/alive":               {"ids", "accounts"},
		"POST /api/v1/auth/totp":                {"current_password"},
		"POST /api/v1/auth/totp/confirm":        {"code"},
		"POST /api/v1/auth/totp/remove":         {"current_password", "code"},
		"POST /api/v1/auth/passkeys/begin":      {"current_password"},
		"POST /api/v1/auth/passkeys/finish":     {"challenge", "name"},
		"POST /api/v1/auth/passkeys/login":      {"challenge"},
		"PATCH /api/v1/auth/passkeys/x":         {"name"},
		"POST /api/v1/users":                    {"username", "password", "email", "name", "administrator"},
		"PATCH /api/v1/users/" + id:             {"name", "email", "administrator", "disabled"},
		"PUT /api/v1/users/" + id + "/password": {"password"},
		"POST /api/v1/users/token-state":        {"subs"},
	} {
		method, path, _ := strings.Cut(path, " ")
		for _, field := range fields {
			r := p.as(p.admin, method, path, map[string]any{field: 3})
			require.Equal(t, http.StatusUnprocessableEntity, r.status, "%s %s: %v", path, field, r.body)
			require.Equal(t, "body."+field, location(r), path)
		}

		r := p.as(p.admin, method, path, []string{"no object"})
		require.Equal(t, http.StatusUnprocessableEntity, r.status, path)
		require.Equal(t, "body", location(r), path)
		require.Equal(t, "body: must be a JSON object", r.body["detail"], path)
	}
}

func TestService_decode_refuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	login := p.server.URL + "/api/v1/auth/login"

	for _, c := range []struct {
		kind, body, code string
		status           int
	}{
		{"application/json", "", "malformed_request", 400},
		{"application/json", `{"username":`, "malformed_request", 400},
		{"application/json", `{"username": "` + strings.Repeat("x", 65<<10) + `"}`, "body_too_large", 413},
		{"application/x-www-form-urlencoded", "username=x", "unsupported_media_type", 415},
	} {
		response, err := http.Post(login, c.kind, strings.NewReader(c.body)) //nolint:gosec,noctx // of this test
		require.NoError(t, err)

		r := decoded(t, response)
		require.Equal(t, c.status, r.status, c.body)
		require.Equal(t, c.code, r.body["code"], c.body)
	}
}

func TestService_otherMethods_allow(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)

	for path, allow := range map[string]string{
		"/api/health": "GET, HEAD", "/api/v1/users": "GET, POST, HEAD", "/api/v1/auth/login": "POST",
	} {
		r := p.as(p.admin, http.MethodPut, path, map[string]any{})
		require.Equal(t, http.StatusMethodNotAllowed, r.status, path)
		require.Equal(t, allow, r.header.Get("Allow"), path)
	}
}
