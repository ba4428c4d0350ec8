package activities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities"
	"everloop/activities/contract"
	"everloop/domain"
)

// endingChats has a chat that a dead worker left with open turns.
type endingChats struct {
	activities.Chats
	open     []domain.OpenTurn
	restored map[domain.TurnID][]domain.Block
}

func (c *endingChats) OpenTurnsOfChat(context.Context, domain.ChatID) ([]domain.OpenTurn, error) {
	return c.open, nil
}

func (c *endingChats) FinishChat(
	ctx context.Context, _ contract.FinishChatIn, restored map[domain.TurnID][]domain.Block,
) (contract.FinishChatOut, error) {
	c.restored = restored
	return contract.FinishChatOut{}, ctx.Err()
}

// deadLog answers nothing until the request ends, or fails at the request of a number.
type deadLog struct {
	activities.EventLog
	mu    sync.Mutex
	asked int
	fails int // 0: none
}

func (l *deadLog) Last(ctx context.Context, _ domain.SessionID) (uint64, error) {
	l.mu.Lock()
	l.asked++
	fails := l.asked == l.fails
	l.mu.Unlock()

	if fails {
		return 0, domain.Unavailablef("event log", errors.New("no responders"))
	}

	<-ctx.Done()

	return 0, domain.Unavailablef("event log", ctx.Err())
}

type noMetrics struct{ activities.Metrics }

func (noMetrics) ChatEnded(string) {}

// The time is that of the test's clock.
func TestFinishChat_withLostTurnsWhileTheEventLogIsUnavailable(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		fails  int
		within time.Duration
	}{
		"no answer":         {0, 5 * time.Second},
		"one request fails": {3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				chats := &endingChats{}

				for n := range 3 {
					id := domain.TurnID(fmt.Sprint("t", n))
					turn := domain.Turn{ID: id, TurnID: id, Blocks: []domain.Block{{Type: domain.BlockText, Content: "flushed"}}}
					chats.open = append(chats.open, domain.OpenTurn{Turn: turn, SessionID: "s"})
				}

				acts := &activities.Activities{
					Chats: chats, Log: &deadLog{fails: test.fails}, Metrics: noMetrics{}, Logger: slog.New(slog.DiscardHandler),
				}
				began := time.Now()
				_, err := acts.FinishChat(t.Context(), contract.FinishChatIn{ChatID: "c", Reason: domain.FinishFailed})
				require.NoError(t, err)
				require.Equal(t, test.within, time.Since(began))
				require.Len(t, chats.restored, 3)

				for _, blocks := range chats.restored {
					require.Equal(t, "flushed", blocks[0].Content)
				}
			})
		})
	}
}
