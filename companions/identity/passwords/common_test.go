package passwords

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommon(t *testing.T) {
	t.Parallel()

	for _, password := range []string{"1234567890", "Password123", "QWERTYUIOP", "aaaaaaaaaaaa", "AaAaAaAaAa", "0000000000"} {
		require.True(t, Common(password), password)
	}

	for _, password := range []string{"", "correct horse battery", "abababababab", "üüüüüüüüüüx"} {
		require.False(t, Common(password), password)
	}

	for password := range common {
		require.GreaterOrEqual(t, len(password), Min, "%s is refused by its length", password)
	}
}
