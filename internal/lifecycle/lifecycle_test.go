package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/internal/lifecycle"
)

var errBroken = errors.New("broken")

// waits returns a service that notes its end.
func waits(name string, noted *[]string, mu *sync.Mutex) lifecycle.Service {
	return lifecycle.Func(name, func(ctx context.Context) error {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()

		*noted = append(*noted, name)

		return ctx.Err()
	})
}

func TestRun_endsUpperLayersFirst(t *testing.T) {
	t.Parallel()

	var (
		mu    sync.Mutex
		noted []string
	)

	ctx, cancel := context.WithCancel(t.Context())
	upper := lifecycle.Task("task", func(context.Context) { cancel() })
	err := lifecycle.Run(ctx,
		lifecycle.Layer{waits("store", &noted, &mu)},
		lifecycle.Layer{waits("worker", &noted, &mu)},
		lifecycle.Layer{waits("edge", &noted, &mu), upper},
	)
	require.NoError(t, err, "the end of ctx is no error")
	require.Equal(t, []string{"edge", "worker", "store"}, noted)
}

func TestRun_returnsFirstError(t *testing.T) {
	t.Parallel()

	fails := lifecycle.Func("hub", func(context.Context) error { return errBroken })

	late := lifecycle.Func("edge", func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("could not close")
	})
	for name, layers := range map[string][]lifecycle.Layer{
		"in the upper layer": {{}, {fails, late}},
		"in the lower layer": {{fails}, {late}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := lifecycle.Run(t.Context(), layers...)
			require.ErrorIs(t, err, errBroken)
			require.EqualError(t, err, "hub: broken")
		})
	}
}

func TestRun_endsWhenOneServiceEnds(t *testing.T) {
	t.Parallel()

	var (
		mu    sync.Mutex
		noted []string
	)

	done := lifecycle.Func("drained", func(context.Context) error { return nil })
	require.NoError(t, lifecycle.Run(t.Context(), lifecycle.Layer{done, waits("other", &noted, &mu)}))
	require.Equal(t, []string{"other"}, noted)

	ended := lifecycle.Loop("loop", func(context.Context) {})
	require.EqualError(t, lifecycle.Run(t.Context(), lifecycle.Layer{ended}), "loop: ended by itself")
}
