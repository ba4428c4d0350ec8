package flags

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEdge_Check_names_every_fault(t *testing.T) {
	t.Parallel()

	err := Edge{TrustedProxies: []string{"proxy"}, Connections: -1, BodyBudget: 1, KeyGuesses: -1}.Check()
	for _, variable := range []string{"TRUSTED_PROXIES", "CONNECTIONS_PER_ADDRESS", "BODY_BUDGET_BYTES", "KEY_GUESSES_PER_MINUTE"} {
		require.ErrorContains(t, err, variable)
	}

	require.NoError(t, Edge{}.Check())
}
