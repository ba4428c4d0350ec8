package companion

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/companions/identity/upstream"
)

// The services next to the agent reach it also where it listens on every address.
func TestSettings_agentURL(t *testing.T) {
	t.Parallel()

	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = front.Close() })

	for addr, want := range map[string]string{
		":8020": "http://127.0.0.1:8020", "0.0.0.0:8020": "http://127.0.0.1:8020", "[::]:8020": "http://127.0.0.1:8020",
		"127.0.0.1:8021": "http://127.0.0.1:8021", "agent:8020": "http://agent:8020",
	} {
		var s Settings

		parser, err := kong.New(&s)
		require.NoError(t, err)
		_, err = parser.Parse(nil)
		require.NoError(t, err)

		agent := Agent{Addr: addr, EncryptionKey: strings.Repeat("k", 32)}
		cfg, err := s.identityConfig(agent, front)
		require.NoError(t, err)
		require.Equal(t, want, cfg.AgentURL)
		require.Equal(t, want, s.agentURL(agent))

		s.AgentURL = "http://other:1"
		cfg, err = s.identityConfig(agent, front)
		require.NoError(t, err)
		require.Equal(t, "http://other:1", cfg.AgentURL)
	}
}

// The desktop listens on port 8080 where port 80 may not be bound. Any other fault of the
// address is reported.
func TestListenDesktop_portThatMayNotBeBound(t *testing.T) {
	t.Parallel()

	refused := &net.OpError{Op: "listen", Err: syscall.EACCES}
	taken := &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}

	for name, tc := range map[string]struct {
		addr  string
		fault error
		tried []string
	}{
		"it may":            {"127.0.0.1:80", nil, []string{"127.0.0.1:80"}},
		"it may not":        {"127.0.0.1:80", refused, []string{"127.0.0.1:80", "127.0.0.1:8080"}},
		"on every address":  {":80", refused, []string{":80", ":8080"}},
		"the port is taken": {"127.0.0.1:80", taken, []string{"127.0.0.1:80"}},
		"another port":      {"127.0.0.1:443", refused, []string{"127.0.0.1:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var tried []string

			_, err := listenDesktopBy(func(variable, addr string) (net.Listener, error) {
				require.Equal(t, "DESKTOP_ADDR", variable)

				tried = append(tried, addr)
				if strings.HasSuffix(addr, ":8080") {
					return nil, nil
				}

				return nil, tc.fault
			}, "DESKTOP_ADDR", tc.addr)

			require.Equal(t, tc.tried, tried)

			if len(tried) == 1 {
				require.ErrorIs(t, err, tc.fault)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// Only the desktop of DESKTOP_URL gets codes without consent: the name makes no client a
// front end of the product.
func TestIdentitySettings_openIDClients_firstParty(t *testing.T) {
	t.Parallel()

	notes := []upstream.Client{{ID: "notes", RedirectURIs: []string{"https://notes.example/callback"}}}

	for desktop, firstParty := range map[string][]bool{"http://localhost:8080/": {true, false}, "none": {false}, "": {false}} {
		registered, err := identitySettings{DesktopURL: desktop}.openIDClients(notes)
		require.NoError(t, err)

		var got []bool
		for _, c := range registered {
			got = append(got, c.FirstParty)
		}

		require.Equal(t, firstParty, got, desktop)
	}

	named := []upstream.Client{{ID: "desktop", RedirectURIs: []string{"https://desktop.example/callback"}}}
	registered, err := identitySettings{DesktopURL: "none"}.openIDClients(named)
	require.NoError(t, err)
	require.False(t, registered[0].FirstParty)

	_, err = identitySettings{DesktopURL: "http://localhost:8080"}.openIDClients(named)
	require.ErrorContains(t, err, "already defined")
}

// The file of OAUTH_CONFIG_YAML_PATH reaches the service.
func TestIdentitySettings_config_file(t *testing.T) {
	t.Parallel()

	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = front.Close() })

	file := filepath.Join(t.TempDir(), "oauth.yaml")
	s := identitySettings{DesktopURL: "none", TokenTTL: time.Minute, OAuthConfig: file}

	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("admin_second_factor: true\nclients: [{id: notes, redirect_uris: ['https://notes.example/callback']}]\n")

	cfg, err := s.config(front, t.TempDir(), identity.Config{})
	require.NoError(t, err)
	require.True(t, cfg.AdminSecondFactor)
	require.Equal(t, "notes", cfg.Clients[0].ID)

	write("clients: [{id: notes, redirect_uris: ['http://notes.example/callback']}]\n")
	require.ErrorContains(t, s.check(), "OAUTH_CONFIG_YAML_PATH: client notes")
}
