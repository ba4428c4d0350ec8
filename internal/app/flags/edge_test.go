package flags

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProxies_Check(t *testing.T) {
	t.Parallel()

	require.ErrorContains(t, Proxies{TrustedProxies: []string{"proxy"}}.Check(), "TRUSTED_PROXIES")
	require.NoError(t, Proxies{TrustedProxies: []string{"10.0.0.5", "fd00::/8"}}.Check())
	require.NoError(t, Proxies{}.Check())
}
