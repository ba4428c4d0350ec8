package upstream_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/identity/upstream"
)

func TestParse_complete(t *testing.T) {
	t.Parallel()

	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("of the file\n"), 0o600))

	found, err := upstream.Parse([]byte(`
providers:
  - id: corp
    issuer: https://login.example.org/tenant
    client_id: everloop
    client_secret_file: ` + secret + `
    scopes: [email]
    create_users: true
    email_domains: ["@Example.org"]
clients:
  - {id: notes, redirect_uris: ["https://notes.example/callback"]}
admin_second_factor: true
`))
	require.NoError(t, err)
	require.Equal(t, []upstream.Provider{{
		ID: "corp", Name: "corp", Issuer: "https://login.example.org/tenant", ClientID: "everloop", ClientSecret: "of the file",
		ClientSecretFile: secret, Scopes: []string{"openid", "email"}, CreateUsers: true, EmailDomains: []string{"example.org"},
	}}, found.Providers)
	require.Equal(t, []upstream.Client{{ID: "notes", RedirectURIs: []string{"https://notes.example/callback"}}}, found.Clients)
	require.True(t, found.AdminSecondFactor)
}

func TestParse_refused(t *testing.T) {
	t.Parallel()

	for name, text := range map[string]string{
		"no YAML":       "providers: [",
		"unknown field": "providers: [{id: a, issuer: 'https://a.example', client_id: x, client_secert: secret-value}]",
		"no id":         "providers: [{issuer: 'https://a.example', client_id: x}]",
		"id":            "providers: [{id: A/b, issuer: 'https://a.example', client_id: x}]",
		"no client":     "providers: [{id: a, issuer: 'https://a.example'}]",
		"http":          "providers: [{id: a, issuer: 'http://a.example', client_id: x}]",
		"no issuer":     "providers: [{id: a, client_id: x}]",
		"query":         "providers: [{id: a, issuer: 'https://a.example?x', client_id: x}]",
		"twice": "providers: [{id: a, issuer: 'https://a.example', client_id: x}, " +
			"{id: a, issuer: 'https://b.example', client_id: x}]",
		"two secrets": "providers: [{id: a, issuer: 'https://a.example', client_id: x, " +
			"client_secret: secret-value, client_secret_file: /x}]",
		"lost file": "providers: [{id: a, issuer: 'https://a.example', client_id: x, client_secret_file: /nothing/here}]",
	} {
		_, err := upstream.Parse([]byte(text))
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "secret-value", name)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("providers: [{id: a, issuer: 'https://a.example', client_id: x}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := upstream.Parse(text)
		if err != nil {
			return
		}

		for _, p := range found.Providers {
			require.NotEmpty(t, p.ID)
			require.NotEmpty(t, p.Issuer)
			require.Contains(t, p.Scopes, "openid")
		}
	})
}
