package limit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys of clients come and go: nothing is kept of one that has nothing running.
func TestKeyed_Queue_keepNoIdleKeys(t *testing.T) {
	t.Parallel()

	var k Keyed[string]

	q := NewQueue(QueueConfig{Slots: 1})

	for i := range 100 {
		release, err := k.Try(Bound[string]{Key: fmt.Sprint(i), Max: 1})
		require.NoError(t, err)
		release()

		release, err = q.Acquire(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)

		_, err = q.Acquire(t.Context(), fmt.Sprint("refused ", i))
		require.ErrorIs(t, err, ErrFull)
		release()
	}

	require.Empty(t, k.running)
	require.Empty(t, q.lines)
}
