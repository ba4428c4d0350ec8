package passkeys_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/identity/passkeys"
)

func TestNew_offeredWhereBrowsersHavePasskeys(t *testing.T) {
	t.Parallel()

	for text, offered := range map[string]bool{
		"https://id.example.org": true, "https://id.example.org:8443": true, "http://localhost:19000": true,
		"http://id.example.org": false, "http://127.0.0.1:19000": false, "https://[::1]": false, "https://192.0.2.1": false,
	} {
		site, err := url.Parse(text)
		require.NoError(t, err)
		party, err := passkeys.New(site)
		require.NoError(t, err, text)
		require.Equal(t, offered, party != nil, text)
	}
}

func TestParty_options(t *testing.T) {
	t.Parallel()

	party, err := passkeys.New(&url.URL{Scheme: "https", Host: "id.example.org:8443"})
	require.NoError(t, err)

	options, state, err := party.BeginRegistration(passkeys.User{ID: "the-id", Username: "eve"})
	require.NoError(t, err)

	text, err := json.Marshal(options)
	require.NoError(t, err)

	var shown struct {
		PublicKey struct {
			RP                     struct{ ID string }
			User                   struct{ ID, Name, DisplayName string }
			AuthenticatorSelection map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(text, &shown))
	require.Equal(t, "id.example.org", shown.PublicKey.RP.ID)
	require.Equal(t, "eve", shown.PublicKey.User.DisplayName)
	require.Equal(t, "required", shown.PublicKey.AuthenticatorSelection["userVerification"])
	require.Equal(t, "required", shown.PublicKey.AuthenticatorSelection["residentKey"])

	for _, answer := range []string{"", "{}", "null", "[]", `{"id":"AAAA","rawId":"AAAA","type":"public-key","response":{}}`} {
		_, err = party.Register(passkeys.User{ID: "the-id", Username: "eve"}, state, []byte(answer))
		require.ErrorIs(t, err, passkeys.ErrRefused, answer)
	}
}

func FuzzParty_Login(f *testing.F) {
	party, err := passkeys.New(&url.URL{Scheme: "https", Host: "id.example.org"})
	require.NoError(f, err)

	_, state, err := party.BeginLogin()
	require.NoError(f, err)

	f.Add([]byte(`{"id":"AAAA","rawId":"AAAA","type":"public-key",
		"response":{"clientDataJSON":"e30","authenticatorData":"AAAA","signature":"AAAA"}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		_, err := party.Login(state, answer, func([]byte, string) (passkeys.User, error) {
			return passkeys.User{}, passkeys.ErrRefused
		})
		require.ErrorIs(t, err, passkeys.ErrRefused)
	})
}
