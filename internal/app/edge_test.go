package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"everloop/auth"
	"everloop/domain"
	"everloop/internal/app/flags"
	"everloop/realtime/sio"
)

// noKeys knows no key.
type noKeys struct{ auth.Keys }

func (noKeys) KeyByHash(context.Context, []byte) (domain.User, domain.APIKey, bool, error) {
	return domain.User{}, domain.APIKey{}, false, nil
}

func TestAccess_handshake_bounds_guesses_by_client(t *testing.T) {
	t.Parallel()

	proxies := flags.Proxies{TrustedProxies: []string{"10.0.0.0/8"}}
	require.NoError(t, proxies.Check())
	a := access{auth: auth.New(noKeys{}, auth.Options{GuessesPerMinute: 1}), proxies: proxies.Trusted()}
	guess := 0
	connect := func(peer, client string) error {
		guess++
		_, err := a.handshake(
			t.Context(),
			fmt.Sprint("el_wrong", guess),
			&http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {client}}},
		)

		return err
	}
	refused := &sio.Refusal{Code: auth.CodeTooManyGuesses, Retryable: true}
	require.Equal(t, domain.CodeUnauthorized, domain.AsError(connect("10.0.0.1:443", "198.51.100.1")).Code)
	require.Equal(t, refused, connect("10.0.0.2:443", "198.51.100.1"))
	require.Equal(t, domain.CodeUnauthorized, domain.AsError(connect("10.0.0.1:443", "198.51.100.2")).Code)
	require.Equal(t, domain.CodeUnauthorized, domain.AsError(connect("203.0.113.7:443", "198.51.100.3")).Code)
	require.Equal(t, refused, connect("203.0.113.7:443", "198.51.100.4"), "a client that is no proxy names no other client")
}

func TestSettings_check_refuses_short_bootstrap_keys(t *testing.T) {
	t.Parallel()

	s := settings{BootstrapKey: "key-of-15-chars"}
	err := s.check()
	require.ErrorContains(t, err, "BOOTSTRAP_API_KEY: must have 16 to 512 characters")
	require.NotContains(t, err.Error(), s.BootstrapKey)
}

// What is behind the desktop, or another proxy, can be given its address with Compose too.
func TestCompose_trustedProxies(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)

	var stack struct {
		Services map[string]struct{ Environment map[string]string }
	}
	require.NoError(t, yaml.Unmarshal(text, &stack))

	for _, name := range []string{"api", "identity", "registry", "git"} {
		require.Equal(t, "${TRUSTED_PROXIES:-}", stack.Services[name].Environment["TRUSTED_PROXIES"], name)
	}
}

// A key of the operator that can be guessed is refused at the start.
func TestGateway_Run_refusesShortKeys(t *testing.T) {
	t.Parallel()

	err := (&Gateway{Addr: "127.0.0.1:0", DataDir: t.TempDir(), Key: "k"}).Run(t.Context())
	require.ErrorContains(t, err, "LLM_GATEWAY_KEY must have 16")

	var up Up

	up.GatewayKey = "k"
	_, err = up.useGateway(nil)
	require.ErrorContains(t, err, "LLM_GATEWAY_KEY must have 16")
}
