package work

import (
	"context"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/temporal"
	"everloop/internal/retry"
)

const (
	// waiterTimeout bounds one try to signal a waiter.
	waiterTimeout = 10 * time.Second
	// waiterAge is how long the process that ended a chat has to signal its waiter.
	waiterAge = 5 * time.Second
	// maxSignals is how many waiters are signalled concurrently after commits. Waiters
	// beyond it are left to Repair.
	maxSignals = 64
)

// Waiters signals the workflows that wait for chats when the chats have ended: runs of
// schedules, of DAGs and on issues. A workflow that waits for a chat names itself as the
// Waiter of the message that it sends, and reads the chat after each signal; nothing else
// is needed of it. A signal can come twice.
type Waiters struct {
	chats   *conversation.Base
	runs    temporal.Runs
	logger  *slog.Logger
	slots   chan struct{}
	pauses  *retry.Pauses // by chat
	waiting walk[domain.ChatWaiter]
}

// NewWaiters returns the signals for the chats of a database.
func NewWaiters(db *pg.DB, runs temporal.Runs, logger *slog.Logger) *Waiters {
	chats := conversation.NewBase(db)

	return &Waiters{
		chats: chats, runs: runs, logger: logger, slots: make(chan struct{}, maxSignals), pauses: retry.NewPauses(time.Now),
		waiting: walk[domain.ChatWaiter]{
			list: func(ctx context.Context, after string, limit int) ([]domain.ChatWaiter, error) {
				return chats.ChatWaiters(ctx, waiterAge, after, limit)
			},
			key: func(waiter domain.ChatWaiter) string { return string(waiter.ChatID) },
		},
	}
}

// Signal signals a waiter in the background. It is called after the commit of the chat's
// end; Repair signals the waiters that it does not reach.
func (w *Waiters) Signal(waiter domain.ChatWaiter) {
	select {
	case w.slots <- struct{}{}:
	default:
		return
	}

	go func() {
		defer func() { <-w.slots }()

		if err := w.notify(context.Background(), waiter); err != nil {
			w.logger.Debug("failed to signal the waiter of a chat, retrying later",
				"chat_id", waiter.ChatID, "workflow_id", waiter.WorkflowID, "error", err)
		}
	}()
}

// Repair signals the waiters of ended chats that were not signalled: the process died
// after the commit, or Temporal was unavailable. The pauses between tries double.
func (w *Waiters) Repair(ctx context.Context) error {
	return w.waiting.each(ctx, maxConcurrent, func(ctx context.Context, waiter domain.ChatWaiter) error {
		if _, due := w.pauses.Try(string(waiter.ChatID)); !due {
			return nil
		}

		return w.notify(ctx, waiter)
	})
}

func (w *Waiters) notify(ctx context.Context, waiter domain.ChatWaiter) error {
	ctx, cancel := context.WithTimeout(ctx, waiterTimeout)
	defer cancel()

	// A workflow that is closed does not wait any longer, and is noted like one that was signalled.
	if _, err := w.runs.NotifyWaiter(ctx, waiter); err != nil {
		return err
	}

	return w.chats.WaiterNotified(ctx, waiter.ChatID)
}
