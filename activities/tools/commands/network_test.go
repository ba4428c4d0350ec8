package commands

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestBash_Run_namesRefusedPlaces(t *testing.T) {
	t.Parallel()

	var refused []domain.Connection
	for _, host := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		refused = append(
			refused, domain.Connection{Host: host + ".test", Port: 443, Decision: domain.ConnectionRefused, Reason: domain.NoNetworkRule},
		)
	}

	text := withRefusals(
		"[exit code 1]", append(refused, domain.Connection{Host: "reached.test", Port: 443, Decision: domain.ConnectionAllowed}),
	)
	require.Contains(t, text, "[exit code 1]\n[the network was refused to a.test:443 (no rule allows it), b.test:443")
	require.Contains(t, text, "and further places; RequestAccess")
	require.NotContains(t, text, "k.test")
	require.NotContains(t, text, "reached.test")
	require.Empty(t, withRefusals("", nil))
	other := withRefusals(
		"", []domain.Connection{{Host: "10.0.0.1", Port: 80, Decision: domain.ConnectionRefused, Reason: "it is private"}},
	)
	require.Equal(t, "[the network was refused to 10.0.0.1:80 (it is private)]", other)
}
