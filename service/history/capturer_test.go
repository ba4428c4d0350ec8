package history_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/service/history"
)

// outage is a store with one checkpoint of each session, and an object store that refuses
// until a time.
type outage struct {
	history.Captures
	history.Files
	until  time.Time
	reason error // of Finish until then

	mu     sync.Mutex
	state  map[domain.SessionID]string
	taken  map[domain.SessionID]int
	calls  []string
	delays int
	tries  int  // of Finish
	gone   bool // the sessions are deleted
	record time.Time
}

func newOutage(lasts time.Duration, reason error) *outage {
	return &outage{
		until: time.Now().Add(lasts), reason: reason, state: map[domain.SessionID]string{}, taken: map[domain.SessionID]int{},
	}
}

func (o *outage) TakeCaptures(_ context.Context, id domain.SessionID, _ string, hand []string, _ bool) (domainhistory.DueCaptures, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	due := domainhistory.DueCaptures{SessionID: id}
	if o.state[id] == "" && !slices.Contains(hand, string(id)) {
		due.IDs = []string{string(id)}
		o.taken[id]++
	}

	return due, nil
}

func (o *outage) KeepCaptures(context.Context, string, []string) error { return nil }

func (o *outage) end(ids []string, state string) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.calls = append(o.calls, state)
	o.state[domain.SessionID(ids[0])] = state
}

func (o *outage) DelayCaptures(_ context.Context, _ string, ids []string, _ string) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.gone || o.state[domain.SessionID(ids[0])] != "" {
		return false, nil
	}

	o.delays++

	return true, nil
}

func (o *outage) FailCaptures(_ context.Context, _ string, ids []string, _ string) error {
	o.end(ids, "failed")
	return nil
}

func (o *outage) RecordCaptures(_ context.Context, _ string, due domainhistory.DueCaptures, _ domainhistory.Snapshot) (
	base domainhistory.CaptureBase, err error,
) {
	o.end(due.IDs, "captured")
	o.record = time.Now()

	return base, nil
}

func (o *outage) ForgottenCaptures(context.Context, time.Duration, string) (ids []domain.SessionID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	for id := range o.taken {
		if o.state[id] == "" {
			ids = append(ids, id)
		}
	}

	return ids, nil
}

func (o *outage) FilesChanged(context.Context, domain.SessionID, []domain.FileChange) error {
	return nil
}

func (o *outage) Begin(context.Context, history.CaptureIn) (history.Pending, error) { return o, nil }

func (o *outage) Diff(context.Context, string, string) ([]domainhistory.FileDifference, error) {
	return nil, nil
}

func (o *outage) Needs() int64 { return 0 }

func (o *outage) Discard() {}

func (o *outage) Finish(context.Context) (domainhistory.Snapshot, error) {
	o.mu.Lock()
	o.tries++
	o.mu.Unlock()

	if time.Now().Before(o.until) {
		return domainhistory.Snapshot{}, o.reason
	}

	return domainhistory.Snapshot{ID: "snapshot"}, nil
}

func (o *outage) capturer(t *testing.T) *history.Capturer {
	t.Helper()

	c, err := history.NewCapturer(history.CapturerConfig{Store: o, Files: o, Process: "p", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)

	return c
}

var errUnavailable = domain.Unavailablef("the object store", errors.New("connection refused"))

func TestCapturer_storesAfterAnOutage(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		lasts   time.Duration
		reason  error
		calls   []string
		delayed bool
		within  time.Duration // after the outage
	}{
		"short":           {lasts: 5 * time.Second, reason: errUnavailable, calls: []string{"captured"}, within: 3 * time.Second},
		"half a minute":   {lasts: 30 * time.Second, reason: errUnavailable, delayed: true, calls: []string{"captured"}, within: 15 * time.Second},
		"five minutes":    {lasts: 5 * time.Minute, reason: errUnavailable, delayed: true, calls: []string{"captured"}, within: 15 * time.Second},
		"of another kind": {lasts: time.Hour, reason: errors.New("the snapshot is damaged"), calls: []string{"failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(c.lasts, c.reason)
				capturer := o.capturer(t)
				began := time.Now()

				require.NoError(t, capturer.Settle(t.Context(), "s"))
				require.Zero(t, time.Since(began), "a tool waits until its files were seen, not stored")
				require.NoError(t, capturer.Settled(t.Context(), "s"))
				require.LessOrEqual(t, time.Since(began), 7*time.Second, "and a reader no longer than for the first tries")

				time.Sleep(6 * time.Minute) //nolint:forbidigo // in a synctest bubble
				synctest.Wait()
				require.Equal(t, c.calls, o.calls)
				require.Equal(t, c.delayed, o.delays > 0)

				if c.calls[len(c.calls)-1] == "captured" {
					require.LessOrEqual(t, o.record.Sub(o.until), c.within)
					require.Equal(t, 1, o.taken["s"], "with the files that were seen")
				}
			})
		})
	}
}

// What an outage of hours leaves is looked at again now and then, and stored at its end.
func TestCapturer_Repair_takesUpWhatWasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(time.Hour, errUnavailable)
		capturer := o.capturer(t)
		require.NoError(t, capturer.Settle(t.Context(), "s"))

		for range 80 * 12 {
			time.Sleep(5 * time.Second) //nolint:forbidigo // in a synctest bubble
			require.NoError(t, capturer.Repair(t.Context()))
			synctest.Wait()
		}

		require.NotContains(t, o.calls, "failed")
		require.Equal(t, "captured", o.state["s"])
		require.LessOrEqual(t, o.taken["s"], 6, "looks at the files in an hour")
		require.LessOrEqual(t, o.record.Sub(o.until), 2*time.Minute)
	})
}

// A process that ends does not wait for the end of an outage.
func TestCapturer_Drain_outage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(time.Hour, errUnavailable)
		capturer := o.capturer(t)

		for i := range 50 { // of more than it keeps the files of
			require.NoError(t, capturer.Settle(t.Context(), domain.SessionID(rune('A'+i))))
		}

		time.Sleep(time.Minute) //nolint:forbidigo // in a synctest bubble
		synctest.Wait()

		began := time.Now()

		capturer.Drain(t.Context())
		require.Zero(t, time.Since(began))
		require.Empty(t, o.calls, "each was left for another process")
	})
}

// Of a session that was deleted during an outage nothing is stored after it.
func TestCapturer_sessionDeletedInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(time.Minute, errUnavailable)
		require.NoError(t, o.capturer(t).Settle(t.Context(), "s"))
		time.Sleep(10 * time.Second) //nolint:forbidigo // in a synctest bubble
		synctest.Wait()

		o.mu.Lock()
		o.gone = true
		tries := o.tries
		o.mu.Unlock()

		time.Sleep(5 * time.Minute) //nolint:forbidigo // in a synctest bubble
		synctest.Wait()
		require.Equal(t, tries, o.tries)
		require.Empty(t, o.calls)
	})
}
