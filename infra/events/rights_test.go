package events

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
)

func TestSignals_AnnounceRights_reaches_every_process(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	here, there := openSignals(t, e), openSignals(t, e)
	got := make(chan domain.RightsChange, 10)
	elsewhere := auth.NewChanges(nil, slog.Default())
	elsewhere.Watch(func(_ context.Context, change domain.RightsChange) { got <- change })
	cancel, err := there.WatchRights(func(change domain.RightsChange) { elsewhere.Receive(t.Context(), change) })
	require.NoError(t, err)
	require.NoError(t, there.flush(t.Context()))

	changes := auth.NewChanges(here.AnnounceRights, slog.Default())
	for _, change := range []domain.RightsChange{{KeyID: "k"}, {UserID: "u"}, {SessionID: "s"}} {
		changes.Announce(t.Context(), change)

		select {
		case received := <-got:
			require.Equal(t, change, received)
		case <-time.After(time.Minute):
			t.Fatal("the other process was not notified")
		}
	}

	cancel()
	require.NoError(t, there.flush(t.Context()))
	changes.Announce(t.Context(), domain.RightsChange{KeyID: "k"})
	require.NoError(t, there.flush(t.Context()))
	require.Empty(t, got)
}
