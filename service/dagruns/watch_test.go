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

type lastEvent struct {
	at  time.Time
	err error
}

func (e lastEvent) LastAt(context.Context, domain.SessionID) (time.Time, error) { return e.at, e.err }

func TestService_silence(t *testing.T) {
	t.Parallel()

	long := time.Now().Add(-2 * time.Hour)

	for name, c := range map[string]struct {
		idle bool
		last lastEvent
		want time.Duration
	}{
		"silent":                     {last: lastEvent{at: long}, want: 2 * time.Hour},
		"waits for a person":         {idle: true, last: lastEvent{at: long}},
		"no event is kept":           {},
		"the event log is not there": {last: lastEvent{err: errors.New("unavailable")}},
	} {
		s := &Service{cfg: Deps{Events: c.last, Logger: slog.New(slog.DiscardHandler)}}
		silent := s.silence(t.Context(), dagrun.Work{Idle: c.idle})
		require.InDelta(t, c.want.Seconds(), silent.Seconds(), 120, name)
	}
}

func TestWatched(t *testing.T) {
	t.Parallel()

	now := time.Now()
	require.Equal(t, dagrun.CodeHeartbeat, watched(now, 2*time.Hour, time.Hour).Failure.Code)
	require.Equal(t, now.Add(30*time.Minute), *watched(now, 30*time.Minute, time.Hour).Due)
	require.Equal(t, now.Add(watchEvery), *watched(now, time.Hour-time.Second, time.Hour).Due)
}
