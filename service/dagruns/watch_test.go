package dagruns

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dagrun"
)

// watchedRun is a run with one unit of which activity is due.
type watchedRun struct {
	Store
	unit   dagrun.Watch
	failed string        // the code with which the unit was failed
	due    time.Duration // until its next activity
}

func (r *watchedRun) AdvanceDAGRun(context.Context, string) (dagrun.Step, error) {
	if r.failed != "" || r.due != 0 {
		return dagrun.Step{}, nil
	}

	return dagrun.Step{Watch: []dagrun.Watch{r.unit}}, nil
}

func (r *watchedRun) WatchDAGUnit(_ context.Context, _ string, _ int, due time.Time) error {
	r.due = time.Until(due)
	return nil
}

func (r *watchedRun) FailDAGUnit(_ context.Context, _ string, _ int, code, _ string) error {
	r.failed = code
	return nil
}

type lastEvent struct {
	at  time.Time
	err error
}

func (e lastEvent) LastAt(context.Context, domain.SessionID) (time.Time, error) { return e.at, e.err }

func TestService_Advance_activity(t *testing.T) {
	t.Parallel()

	long := time.Now().Add(-2 * time.Hour)

	for name, c := range map[string]struct {
		waits  bool
		last   lastEvent
		failed string
		due    time.Duration
	}{
		"silent for too long":        {last: lastEvent{at: long}, failed: dagrun.CodeHeartbeat},
		"silent for half of it":      {last: lastEvent{at: time.Now().Add(-30 * time.Minute)}, due: 30 * time.Minute},
		"just not too long":          {last: lastEvent{at: time.Now().Add(-time.Hour + 3*time.Second)}, due: watchEvery},
		"waits for a person":         {waits: true, last: lastEvent{at: long}, due: time.Hour},
		"no event is kept":           {due: time.Hour},
		"the event log is not there": {last: lastEvent{err: errors.New("away")}, due: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			run := &watchedRun{unit: dagrun.Watch{ID: "u", Attempt: 1, SessionID: "s", Limit: time.Hour, Waits: c.waits}}
			s := &Service{Config{Store: run, Events: c.last, Logger: slog.New(slog.DiscardHandler)}}

			_, err := s.Advance(t.Context(), "r", false)
			require.NoError(t, err)
			require.Equal(t, c.failed, run.failed)
			require.InDelta(t, c.due.Seconds(), run.due.Seconds(), 120, "the test may have been slow")
		})
	}
}

// countedRun is a run whose steps fail.
type countedRun struct {
	Store
	counted int
	failed  []string
}

func (r *countedRun) CountDAGAdvance(context.Context, string) (int, error) {
	r.counted++
	return r.counted, nil
}

func (r *countedRun) FailDAGRun(_ context.Context, _, code, _ string) (bool, error) {
	r.failed = append(r.failed, code)
	return true, nil
}

func (r *countedRun) AdvanceDAGRun(context.Context, string) (dagrun.Step, error) {
	if len(r.failed) > 0 {
		return dagrun.Step{Ended: true}, nil
	}

	return dagrun.Step{}, errors.New("the step took too long")
}

func TestService_Advance_failsRunAfterAttempts(t *testing.T) {
	t.Parallel()

	store := &countedRun{}
	s := &Service{cfg: Config{Store: store, Logger: slog.New(slog.DiscardHandler)}}

	for attempt := range dagrun.MaxAdvances {
		_, err := s.Advance(t.Context(), "r", attempt > 0)
		require.Error(t, err)
	}

	step, err := s.Advance(t.Context(), "r", true)
	require.NoError(t, err)
	require.True(t, step.Ended)
	require.Equal(t, []string{dagrun.CodeAdvance}, store.failed)
}
