//go:build linux

package kernelfile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAgain(t *testing.T) {
	t.Parallel()

	calls := 0
	outcome := func(interrupted int, last error) func() error {
		calls = 0

		return func() error {
			if calls++; calls <= interrupted {
				return unix.EINTR
			}

			return last
		}
	}

	require.NoError(t, again(outcome(3, nil)))
	require.Equal(t, 4, calls)
	require.ErrorIs(t, again(outcome(1, unix.EINVAL)), unix.EINVAL)
	require.Equal(t, 2, calls)
	require.ErrorIs(t, again(outcome(1000, nil)), unix.EINTR)
	require.Equal(t, tries, calls)
}
