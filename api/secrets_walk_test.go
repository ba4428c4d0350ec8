package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// secretFields are names of fields with which answers give credentials, or values that
// are sealed at rest.
var secretFields = []string{"secret", "plaintext", "token", "env", "password", "access_token", "refresh_token", "api_key", "headers"}

// TestSecretsAreNotKept makes every POST, the only method whose answers are kept, with an
// Idempotency-Key: one with a secret is not stored for repeats.
func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := map[string]bool{}

	for _, c := range walk {
		name := c.method + " " + c.path
		if c.method != http.MethodPost || c.stream || c.status >= 300 {
			continue
		}

		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			c, who := w.ready(c)
			key := idempotencyKey(domain.NewID())

			r := w.do(c.method, c.url, who, c.body, key)
			require.Equal(t, c.status, r.status, r.text)

			if !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") || !holds(r.json(), secretFields) {
				return
			}

			secret[name] = true

			w.do(c.method, c.url, who, c.body, key).code(409, "idempotency_secret_not_kept")
		})
	}

	require.Equal(t, []string{
		"POST /api/admin/users",
		"POST /api/sessions/{session_id}/share",
		"POST /api/triggers",
		"POST /api/user/api-keys/",
		"POST /api/webhooks",
		"POST /api/webhooks/{id}/rotate-secret",
	}, slices.Sorted(maps.Keys(secret)))
}

// holds reports whether a JSON value has a field of one of the names, at any depth, that
// says something.
func holds(value any, names []string) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, func(v any) bool { return holds(v, names) })
	case map[string]any:
		for name, v := range value {
			if slices.Contains(names, name) && says(v) || holds(v, names) {
				return true
			}
		}
	}

	return false
}

// says reports whether a value, or one in it, is a text that is not masked.
func says(value any) bool {
	switch value := value.(type) {
	case string:
		return value != "" && value != "********"
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(value)), says)
	}

	return false
}
