//go:build linux

package skills

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A value that was read before a change, and is returned after it, is not kept.
func TestMemo_read_forgottenDuringRead(t *testing.T) {
	t.Parallel()

	m := newMemo[string, string](10, time.Hour)

	before, err := m.read("ann", func() (string, error) {
		m.forget("ann")
		return "before", nil
	})
	require.NoError(t, err)
	require.Equal(t, "before", before)

	now, err := m.read("ann", func() (string, error) { return "after", nil })
	require.NoError(t, err)
	require.Equal(t, "after", now)
}

func TestMemo_read(t *testing.T) {
	t.Parallel()

	m := newMemo[string, int](10, time.Hour)
	give := func(n int, err error) func() (int, error) { return func() (int, error) { return n, err } }

	_, err := m.read("a", give(1, errors.New("down")))
	require.EqualError(t, err, "down")

	for _, n := range []int{2, 3} { // the second is not read
		got, err := m.read("a", give(n, nil))
		require.NoError(t, err)
		require.Equal(t, 2, got)
	}

	m.forget("a")

	got, err := m.read("a", give(4, nil))
	require.NoError(t, err)
	require.Equal(t, 4, got)
}
