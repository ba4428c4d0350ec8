package activities

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// lateTurns publishes what was committed only when it is allowed to.
type lateTurns struct {
	Turns
	published chan struct{}
	waits     int
}

func (l *lateTurns) Published(ctx context.Context, _ domain.SessionID) error {
	l.waits++
	select {
	case <-l.published:
		return nil
	case <-ctx.Done():
		return errors.New("the event log is away")
	}
}

// pieces keeps what was published of live output.
type pieces struct {
	EventLog
	count int
}

func (p *pieces) PublishDelta(context.Context, domain.Event) (uint64, error) {
	p.count++
	return 1, nil
}

// A call that was taken over may have its result by then: nothing comes behind it.
func TestLiveOutput_endsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, log := &lateTurns{published: make(chan struct{})}, &pieces{}
		a := &Activities{Turns: turns, Log: log, Logger: slog.New(slog.DiscardHandler)}

		over, abort := context.WithCancelCause(t.Context())
		live := a.liveOutput(over, domain.LedgerCall{ID: "c", SessionID: "s"})

		abort(domain.ErrFenced)
		live("stdout", "what was written last")
		require.Zero(t, log.count)
		require.Zero(t, turns.waits)

		over, abort = context.WithCancelCause(t.Context())
		live = a.liveOutput(over, domain.LedgerCall{ID: "c", SessionID: "s"})

		time.AfterFunc(time.Second, func() {
			abort(domain.ErrFenced)
			close(turns.published)
		})
		live("stdout", "taken over while it waits for the event of its call")
		require.Zero(t, log.count)

		live = a.liveOutput(t.Context(), domain.LedgerCall{ID: "c", SessionID: "s"})
		live("stdout", "of a call that goes on")
		require.Equal(t, 1, log.count)
	})
}

// Live output comes behind the event that shows its call; where that is late, there is
// none, and the command is held up once.
func TestLiveOutput_comesBehindItsCall(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  int
	}{
		"soon": {time.Second, 2},
		"late": {time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns, log := &lateTurns{published: make(chan struct{})}, &pieces{}
				a := &Activities{Turns: turns, Log: log, Logger: slog.New(slog.DiscardHandler)}
				live := a.liveOutput(t.Context(), domain.LedgerCall{ID: "c", SessionID: "s"})
				began := time.Now()
				timer := time.AfterFunc(tc.after, func() { close(turns.published) })

				live("stdout", "one")
				live("stdout", "two")
				require.LessOrEqual(t, time.Since(began), progressWait)
				require.Equal(t, tc.want, log.count)
				require.Equal(t, 1, turns.waits)
				timer.Stop()
			})
		})
	}
}
