package objects_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/infra/objects"
)

func TestImageCache_DataURL_loadsOnceAndStaysWithinItsBound(t *testing.T) {
	t.Parallel()

	loads := map[string]int{}

	c := objects.NewImageCache(func(_ context.Context, key string) (string, error) {
		loads[key]++
		return strings.Repeat(key, 40), nil
	}, 100)
	for range 3 {
		for _, key := range []string{"a", "b"} {
			url, err := c.DataURL(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, strings.Repeat(key, 40), url)
		}
	}

	require.Equal(t, map[string]int{"a": 1, "b": 1}, loads)

	get := func(key string) {
		_, err := c.DataURL(t.Context(), key)
		require.NoError(t, err)
	}
	get("a") // b is the one that was not used for longest
	get("c")
	get("a")
	get("b")
	require.Equal(t, map[string]int{"a": 1, "b": 2, "c": 1}, loads)
	get("ab") // more than half of the bound
	get("ab")
	get("a")
	require.Equal(t, map[string]int{"a": 1, "b": 2, "c": 1, "ab": 2}, loads, "a large picture does not drive out the others")
}

func TestImageCache_DataURL_doesNotKeepFailures(t *testing.T) {
	t.Parallel()

	lost := errors.New("lost")
	fail := true
	c := objects.NewImageCache(func(context.Context, string) (string, error) {
		if fail {
			return "", lost
		}

		return "data:", nil
	}, 100)
	_, err := c.DataURL(t.Context(), "a")
	require.ErrorIs(t, err, lost)

	fail = false
	url, err := c.DataURL(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "data:", url)
}

func TestImageCache_DataURL_sharesOneRequest(t *testing.T) {
	t.Parallel()

	var loads atomic.Int32

	entered, release := make(chan struct{}), make(chan struct{})
	c := objects.NewImageCache(func(context.Context, string) (string, error) {
		if loads.Add(1) == 1 {
			close(entered)
		}

		<-release

		return "data:", nil
	}, 100)
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)

	go func() {
		_, err := c.DataURL(leaving, "a")
		left <- err
	}()

	<-entered
	leave()
	require.ErrorIs(t, <-left, context.Canceled)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if url, err := c.DataURL(t.Context(), "a"); err != nil || url != "data:" {
				t.Errorf("got %q, %v", url, err)
			}
		})
	}

	close(release)
	wg.Wait()
	require.EqualValues(t, 1, loads.Load(), "a caller that leaves does not fail the others")
}
