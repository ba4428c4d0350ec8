//go:build linux

package seccomp

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call is in one list only, so that its answer is the one that its list says.
func TestCalls_listsAreDisjoint(t *testing.T) {
	t.Parallel()

	seen := map[uint32]bool{}
	for _, nr := range slices.Concat(Allowed(), Conditional(), Refused()) {
		require.False(t, seen[nr], "call %d is listed twice", nr)
		seen[nr] = true
	}
}
