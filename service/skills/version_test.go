//go:build linux

package skills

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewer(t *testing.T) {
	t.Parallel()
	// In rising order, as semver.org defines it.
	rising := []string{
		"0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
		"1.0.0", "1.0.10", "1.2.0", "1.10.0", "2.0.0",
	}
	for i, a := range rising {
		for j, b := range rising {
			require.Equal(t, i > j, newer(a, b), "%s after %s", a, b)
		}
	}

	require.False(t, newer("1.0.0+b", "1.0.0+a"))
	require.False(t, newer("", "1.0.0"))
	require.False(t, newer("1.0.0", ""))
	require.True(t, newer("2026-01", "1.0.0"), "what is no version differs")
}
