package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/internal/retry"
)

var (
	errUnavailable = errors.New("away")
	errRefused     = errors.New("refused")
)

func isAway(err error) bool { return errors.Is(err, errUnavailable) }

func TestBackoff_Do(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		errs  []error // of the tries; the last one is repeated
		limit time.Duration
		stop  time.Duration // ctx ends then; 0: never

		err   error
		tries int
		took  time.Duration
	}{
		"succeeds at once": {errs: []error{nil}, tries: 1},
		"succeeds later":   {errs: []error{errUnavailable, errUnavailable, errUnavailable, nil}, tries: 4, took: 7 * time.Second},
		"pauses have a longest": {
			errs:  []error{errUnavailable, errUnavailable, errUnavailable, errUnavailable, errUnavailable, nil},
			tries: 6, took: 15 * time.Second,
		},
		"error is not retried": {errs: []error{errUnavailable, errRefused}, err: errRefused, tries: 2, took: time.Second},
		"limit": {
			errs: []error{errUnavailable}, limit: 10 * time.Second, err: errUnavailable, tries: 5, took: 11 * time.Second,
		},
		"context ends": {
			errs: []error{errUnavailable}, stop: 2 * time.Second, err: errUnavailable, tries: 2, took: 2 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()

				if tc.stop > 0 {
					time.AfterFunc(tc.stop, cancel)
				}

				began, tries := time.Now(), 0
				err := retry.Backoff{First: time.Second, Max: 4 * time.Second, Limit: tc.limit}.Do(ctx, func() error {
					tries++
					return tc.errs[min(tries, len(tc.errs))-1]
				}, isAway)
				require.Equal(t, tc.err, err)
				require.Equal(t, tc.tries, tries)
				require.Equal(t, tc.took, time.Since(began))
			})
		})
	}
}

func TestBackoff_Pause(t *testing.T) {
	t.Parallel()

	b := retry.Backoff{First: 100 * time.Millisecond, Max: time.Second}
	for n, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		require.Equal(t, want*time.Millisecond, b.Pause(n))
	}

	require.Equal(t, time.Second, b.Pause(1_000_000), "no overflow")
}
