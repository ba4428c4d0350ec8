package transfer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Many names in deep directories are looked at in the order of their paths, each against
// the one before.
func TestArrange_manyNestedNames(t *testing.T) {
	t.Parallel()

	const files, depth = 200_000, 100

	below := strings.Repeat("d/", depth)
	names := make([]placed, files)

	for i := range names {
		names[i] = placed{path: fmt.Sprintf("%s%06d", below, files-i), leaf: true}
	}

	entries, err := arrange(names)
	require.NoError(t, err)
	require.Equal(t, files+depth, entries)

	_, err = arrange(append(names, placed{path: names[0].path}))
	require.ErrorContains(t, err, "is listed twice")
	_, err = arrange(append(names, placed{path: names[files-1].path + "/x/y"}))
	require.ErrorContains(t, err, "lies below what is not a directory")
	_, err = arrange(append(names, placed{path: "d", leaf: true}))
	require.ErrorContains(t, err, "lies below what is not a directory")
}
