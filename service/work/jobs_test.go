package work_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/service/work"
)

// leader leads as soon as it is asked, until its lead is taken away.
type leader struct{ lose chan struct{} }

func (l leader) Lead(ctx context.Context, _ string, work func(context.Context)) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	go func() {
		select {
		case <-l.lose:
			cancel()
		case <-ctx.Done():
		}
	}()

	work(ctx)

	return true, nil
}

func TestRunner_goesOnAfterFailingAndHangingJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())

		var good, bad, hung, local, failures atomic.Int32

		lead := leader{lose: make(chan struct{})}
		runner, err := work.NewRunner(lead.Lead, "test", []work.Job{
			{Name: "bad", Every: time.Second, Run: func(context.Context) error { bad.Add(1); return errors.New("away") }},
			{Name: "good", Every: time.Second, Run: func(context.Context) error { good.Add(1); return nil }},
			{Name: "hangs", Every: time.Second, Limit: 10 * time.Second, Run: func(ctx context.Context) error {
				hung.Add(1)
				<-ctx.Done()

				return ctx.Err()
			}},
			{Name: "local", Every: time.Second, Local: true, Run: func(context.Context) error { local.Add(1); return nil }},
		}, func(string) { failures.Add(1) }, slog.New(slog.DiscardHandler))
		require.NoError(t, err)

		done := make(chan struct{})
		go func() { defer close(done); runner.Run(ctx) }()

		time.Sleep(23500 * time.Millisecond) //nolint:forbidigo // in a synctest bubble
		require.EqualValues(t, 23, good.Load())
		require.EqualValues(t, 23, bad.Load())
		require.EqualValues(t, 3, hung.Load(), "a run that hangs ends at its limit")
		require.EqualValues(t, 23+2, failures.Load())

		lead.lose <- struct{}{}

		synctest.Wait()

		led, alone := good.Load(), local.Load()

		time.Sleep(1500 * time.Millisecond) //nolint:forbidigo // in a synctest bubble
		require.Equal(t, led, good.Load(), "without the lead only local jobs run")
		require.Greater(t, local.Load(), alone)
		time.Sleep(3 * time.Second) //nolint:forbidigo // in a synctest bubble
		require.Greater(t, good.Load(), led, "the lead is taken again")
		stop()
		<-done
	})
}

func TestNewRunner_checksItsJobs(t *testing.T) {
	t.Parallel()

	ok := func(context.Context) error { return nil }
	for name, jobs := range map[string][]work.Job{
		"no name":     {{Every: 1, Run: ok}},
		"no interval": {{Name: "a", Run: ok}},
		"no function": {{Name: "a", Every: 1}},
		"same name":   {{Name: "a", Every: 1, Run: ok}, {Name: "a", Every: 1, Run: ok}},
	} {
		_, err := work.NewRunner(leader{}.Lead, "test", jobs, func(string) {}, slog.Default())
		require.Error(t, err, name)
	}

	_, err := work.NewRunner(nil, "test", nil, nil, nil)
	require.Error(t, err)
}

func TestPrune_worksInBatchesUntilNothingIsLeft(t *testing.T) {
	t.Parallel()

	for batch, want := range map[int]int{0: 3, 20: 62} {
		left, runs := int64(1234), 0
		prune := func(_ context.Context, limit int) (int64, error) {
			runs++
			removed := min(left, int64(limit))
			left -= removed

			return removed, nil
		}

		require.NoError(t, work.Prune(work.Retention{Of: "rows", Prune: prune, Batch: batch})(t.Context()))
		require.Zero(t, left)
		require.Equal(t, want, runs)
	}
}

func TestPrune_continuesAfterAFault(t *testing.T) {
	t.Parallel()

	var ages []time.Duration

	older := func(_ context.Context, age time.Duration, _ int) (int64, error) {
		ages = append(ages, age)
		return 0, nil
	}
	err := work.Prune(
		work.Retention{Of: "keys", Prune: func(context.Context, int) (int64, error) { return 0, errors.New("away") }},
		work.Kept("all", 0, older),
		work.Kept("some", time.Hour, older),
	)(t.Context())
	require.EqualError(t, err, "prune keys: away")
	require.Equal(t, []time.Duration{time.Hour}, ages, "0 keeps everything")
}

func TestAll(t *testing.T) {
	t.Parallel()

	var ran atomic.Int32

	err := work.All(
		func(context.Context) error { return errors.New("away") },
		func(context.Context) error { ran.Add(1); return nil },
	)(t.Context())
	require.EqualError(t, err, "away")
	require.EqualValues(t, 1, ran.Load())
}
