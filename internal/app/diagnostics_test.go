package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// A service that answers with a fault of its own is not healthy; one that refuses to say
// anything is.
func TestCheckAddress(t *testing.T) {
	t.Parallel()

	for status, want := range map[int]domain.CheckStatus{
		http.StatusOK: domain.CheckOK, http.StatusNotFound: domain.CheckOK, http.StatusUnauthorized: domain.CheckOK,
		http.StatusFound: domain.CheckOK, http.StatusInternalServerError: domain.CheckFail, http.StatusServiceUnavailable: domain.CheckFail,
	} {
		asked := make(chan string, 2)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.Path

			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)

		result := checkAddress("registry", "Skill registry", "REGISTRY_URL", server.URL+"/", healthPath).Run(t.Context())
		require.Equal(t, want, result.Status, status)
		require.Equal(t, "/api/health", <-asked)

		b := &backend{}
		b.settings.GISMapURL = server.URL + "/map"
		require.Equal(t, want == domain.CheckOK, b.gis(t.Context()).Healthy, status)
		require.Equal(t, "/map", <-asked)
	}

	skipped := checkAddress("registry", "Skill registry", "REGISTRY_URL", "", healthPath).Run(t.Context())
	require.Equal(t, domain.CheckSkipped, skipped.Status)
}

// The services beside the agent reach it also where it listens on every address.
func TestUp_agentURL(t *testing.T) {
	t.Parallel()

	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = front.Close() })

	for addr, want := range map[string]string{
		":8020": "http://127.0.0.1:8020", "0.0.0.0:8020": "http://127.0.0.1:8020", "[::]:8020": "http://127.0.0.1:8020",
		"127.0.0.1:8021": "http://127.0.0.1:8021", "agent:8020": "http://agent:8020",
	} {
		var c Up

		parser, err := kong.New(&c)
		require.NoError(t, err)
		_, err = parser.Parse([]string{"--agent-addr", addr, "--encryption-key", strings.Repeat("k", 32)})
		require.NoError(t, err)

		cfg, err := c.identityConfig(front)
		require.NoError(t, err)
		require.Equal(t, want, cfg.AgentURL)
		require.Equal(t, want, c.agentURL())

		c.registrySettings.AgentURL = "http://other:1"
		cfg, err = c.identityConfig(front)
		require.NoError(t, err)
		require.Equal(t, "http://other:1", cfg.AgentURL)
	}
}
