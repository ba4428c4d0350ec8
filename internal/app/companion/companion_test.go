package companion

import (
	"net"
	"strings"
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
