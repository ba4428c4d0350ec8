package events

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func openSignals(t *testing.T, e *engine) *Signals {
	s, err := OpenSignals(t.Context(), e.Connect())
	require.NoError(t, err)
	t.Cleanup(s.Close)

	return s
}

func arrived(ch <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
}

func TestSignals_stopReachesEveryProcess(t *testing.T) {
	e := newEngine(t)
	here, there := openSignals(t, e), openSignals(t, e)
	one, cancelOne := here.WatchStop("c1")
	two, cancelTwo := here.WatchStop("c1")
	far, cancelFar := there.WatchStop("c1")
	other, cancelOther := there.WatchStop("c2")
	task, cancelTask := there.WatchTaskStop("c1")

	defer cancelOne()
	defer cancelFar()
	defer cancelOther()
	defer cancelTask()

	cancelTwo()
	cancelTwo()
	require.NoError(t, here.AnnounceStop(t.Context(), "c1", 1))

	for _, ch := range []<-chan struct{}{one, far} {
		require.Eventually(t, arrived(ch), time.Minute, time.Millisecond)
	}

	require.NoError(t, here.AnnounceTaskStop(t.Context(), "c1"))
	require.Eventually(t, arrived(task), time.Minute, time.Millisecond)
	// The task's signal came behind the chat's on the same connection.
	for _, ch := range []<-chan struct{}{two, other, one} {
		require.False(t, arrived(ch)())
	}
}

func TestSignals_watchThenCheck(t *testing.T) {
	e := newEngine(t)
	watching, announcing := openSignals(t, e), openSignals(t, e)

	for range 200 {
		flag := make(chan struct{})
		go func() {
			close(flag) // state first

			_ = announcing.AnnounceStop(context.Background(), "c1", 1)
		}()

		ch, cancel := watching.WatchStop("c1")

		select {
		case <-flag: // the check finds it
		default:
			select {
			case <-ch:
			case <-time.After(time.Minute):
				t.Fatal("neither the flag nor the signal was seen")
			}
		}

		cancel()
	}
}

func TestSignalsRefuseWhatIsNoID(t *testing.T) {
	s := openSignals(t, newEngine(t))
	require.Error(t, s.AnnounceStop(t.Context(), "*", 1))
	require.Error(t, s.AnnounceTaskStop(t.Context(), ""))
}

func TestSignals_serverRestart(t *testing.T) {
	e := newEngine(t)
	s := openSignals(t, e)

	ch, cancel := s.WatchStop("c1")
	defer cancel()

	e.Stop()
	e.Start()
	require.Eventually(t, func() bool {
		_ = s.AnnounceStop(context.Background(), "c1", 1)
		return arrived(ch)()
	}, time.Minute, 20*time.Millisecond)
}
