package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// The time is that of the test's clock.
func TestRestoreAll_whileTheEventLogIsUnavailable(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		fails  int32 // the request that fails; 0: none, and all hang
		within time.Duration
	}{
		"no answer":         {0, restoreTimeout},
		"one request fails": {3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var open []domain.OpenTurn

				for n := range 3 {
					id := domain.TurnID(fmt.Sprint("t", n))
					open = append(open, domain.OpenTurn{Turn: domain.Turn{ID: id, TurnID: id}, SessionID: "s"})
				}

				flushed := []domain.Block{{Type: domain.BlockText, Content: "flushed"}}
				asked := atomic.Int32{}
				began := time.Now()
				restored := restoreAll(t.Context(), open, func(ctx context.Context, _ domain.OpenTurn) ([]domain.Block, error) {
					if asked.Add(1) == test.fails {
						return flushed, domain.Unavailablef("event log", errors.New("no responders"))
					}

					<-ctx.Done()

					return flushed, domain.Unavailablef("event log", ctx.Err())
				}, slog.New(slog.DiscardHandler))
				require.Equal(t, test.within, time.Since(began))
				require.Len(t, restored, 3)

				for _, blocks := range restored {
					require.Equal(t, flushed, blocks)
				}
			})
		})
	}
}
