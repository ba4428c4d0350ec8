package companion

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// The services beside the agent reach it also where it listens on every address.
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

// The desktop of DESKTOP_URL alone gets codes without consent: no client of OPENID_CLIENTS
// becomes the product's own by its name.
func TestIdentitySettings_openIDClients_firstParty(t *testing.T) {
	t.Parallel()

	for desktop, firstParty := range map[string][]bool{"http://localhost:8080/": {true, false}, "none": {false}, "": {false}} {
		s := identitySettings{DesktopURL: desktop, OpenIDClients: []string{"notes=https://notes.example/callback"}}
		registered, err := s.openIDClients()
		require.NoError(t, err)

		var got []bool
		for _, c := range registered {
			got = append(got, c.FirstParty)
		}

		require.Equal(t, firstParty, got, desktop)
	}

	s := identitySettings{DesktopURL: "none", OpenIDClients: []string{"desktop=https://desktop.example/callback"}}
	registered, err := s.openIDClients()
	require.NoError(t, err)
	require.False(t, registered[0].FirstParty)
}
