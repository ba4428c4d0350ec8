package totp_test

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	library "github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity/totp"
)

func TestStep_window(t *testing.T) {
	t.Parallel()

	key, err := totp.New("Everloop", "eve")
	require.NoError(t, err)

	now := time.Unix(1_800_000_000, 0)

	for offset, accepted := range map[time.Duration]bool{
		-60 * time.Second: false, -30 * time.Second: true, 0: true, 30 * time.Second: true, 60 * time.Second: false,
	} {
		code, err := library.GenerateCode(key.Secret, now.Add(offset))
		require.NoError(t, err)

		step, held := totp.Step(key.Secret, code, now)
		require.Equal(t, accepted, held, offset)

		if held {
			require.Equal(t, now.Add(offset).Unix()/30, step)
		}
	}

	for _, code := range []string{"", "12345", "1234567", "abcdef", "000 000"} {
		_, held := totp.Step(key.Secret, code, now)
		require.False(t, held, code)
	}
}

func TestStep_vectorOfTheStandard(t *testing.T) {
	t.Parallel()

	// RFC 6238, appendix B: 8 digits there, of which an app shows the last six.
	step, held := totp.Step("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", "287082", time.Unix(59, 0))
	require.True(t, held)
	require.EqualValues(t, 1, step)
}

func TestNew_URLNamesIssuerAndAccount(t *testing.T) {
	t.Parallel()

	key, err := totp.New("https://id.example.org:8443", "a:b")
	require.NoError(t, err)
	read, err := otp.NewKeyFromURL(key.URL)
	require.NoError(t, err)
	require.Equal(t, key.Secret, read.Secret())
	require.Equal(t, "a b", read.AccountName())

	svg, err := key.SVG()
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{})))
	require.Contains(t, svg, "h1v1h-1z")
}

func TestRecoveryCodes_distinctAndNormal(t *testing.T) {
	t.Parallel()

	codes := totp.RecoveryCodes()
	require.Len(t, codes, 10)

	seen := map[string]bool{}

	for _, code := range codes {
		normal := totp.Normal(strings.ToLower(" " + code))
		require.True(t, totp.IsRecovery(normal), code)
		require.Equal(t, totp.Normal(code), normal)
		require.False(t, seen[normal])
		seen[normal] = true
	}
}
