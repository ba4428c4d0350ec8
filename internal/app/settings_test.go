package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/infra/sandbox"
	"everloop/internal/release"
	"everloop/terminal/doctor"
)

// A role without embedded engines names every address that it misses.
func TestSettings_external(t *testing.T) {
	t.Parallel()

	err := (&settings{}).external()
	for _, e := range (&settings{}).Engines() {
		require.ErrorContains(t, err, e.Variable)
	}

	require.ErrorContains(t, err, "LLM_GATEWAY_URL")
}

func TestDoctor_settings(t *testing.T) {
	t.Parallel()

	c := &Doctor{}
	c.Start.DataDir, c.Start.TemporalAddr, c.Start.TemporalAddress = t.TempDir(), "127.0.0.1:7233", "temporal.example.org:7233"
	found := c.settings()
	require.Len(t, found.Engines, len((&settings{}).Engines()))

	for _, a := range found.Addresses {
		require.False(t, strings.HasPrefix(a.Variable, "TEMPORAL_"), "the embedded Temporal is not started: %s", a.Variable)
	}

	c.Start.TemporalAddress = ""
	require.Contains(t, c.settings().Addresses, doctor.Address{Variable: "TEMPORAL_ADDR", Addr: "127.0.0.1:7233"})
}

func TestSettings_sandboxConfig(t *testing.T) {
	t.Parallel()

	s := &settings{
		DataDir:      "/data",
		kindSettings: kindSettings{Sandbox: "namespaces", SandboxImage: "host", SandboxEngine: "unix:///run/engine"},
	}
	require.NoError(t, s.kindSettings.check())
	require.Nil(t, s.sandboxConfig().Containers)
	require.Equal(t, release.Version, s.computeVersion())

	s.Sandbox = "container"
	require.ErrorContains(t, s.kindSettings.check(), "SANDBOX_IMAGE")

	s.SandboxEngine = "tcp://10.0.0.1:2375"
	require.ErrorContains(t, s.kindSettings.check(), "DOCKER_HOST", "the files of a session are on this machine")

	s.SandboxEngine, s.SandboxImage = "unix:///run/engine", "tools:2"
	require.NoError(t, s.kindSettings.check())
	require.Equal(t, &sandbox.Containers{Engine: "/run/engine", Image: "tools:2", Dir: "/data/sandbox"}, s.sandboxConfig().Containers)
	require.Equal(t, "tools:2", s.computeVersion())
}
