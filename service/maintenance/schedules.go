package maintenance

import (
	"context"
	"errors"
	"time"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/internal/retry"
)

// ScheduleStore keeps scheduled tasks, their runs, and who waits for which chat.
type ScheduleStore interface {
	StaleSchedules(ctx context.Context, after string, limit int) ([]string, error)
	OverdueTasks(ctx context.Context, after string, limit int) ([]string, error)
	CancelledRuns(ctx context.Context) ([]domain.RunChat, error)
	ChatWaiters(ctx context.Context, after string, limit int) ([]schedule.ChatWaiter, error)
	WaiterNotified(ctx context.Context, chatID domain.ChatID) error
}

// ScheduledTasks does what was not done in its time.
type ScheduledTasks interface {
	Sync(ctx context.Context, taskID string) error
	Tick(ctx context.Context, taskID string) (more bool, err error)
	Stop(ctx context.Context, run domain.RunChat) error
}

// ScheduleRuns reaches the workflows of scheduled runs.
type ScheduleRuns interface {
	// NotifyWaiter signals a run that waits for a chat; false: it is gone.
	NotifyWaiter(ctx context.Context, waiter schedule.ChatWaiter) (signalled bool, err error)
}

// Schedules signals runs when the chats that they wait for have ended, and repairs what a
// crash or an outage left of scheduled tasks.
type Schedules struct {
	store ScheduleStore
	tasks ScheduledTasks
	runs  ScheduleRuns

	waiters walk[schedule.ChatWaiter]
	stale   walk[string]
	overdue walk[string]
	signals *retry.Pauses // by chat
	syncs   *retry.Pauses // by task
}

// NewSchedules checks that everything is there.
func NewSchedules(store ScheduleStore, tasks ScheduledTasks, runs ScheduleRuns) (*Schedules, error) {
	if store == nil || tasks == nil || runs == nil {
		return nil, errors.New("maintenance: schedules need a store, tasks and runs")
	}

	return &Schedules{
		store: store, tasks: tasks, runs: runs, signals: retry.NewPauses(time.Now), syncs: retry.NewPauses(time.Now),
		waiters: walk[schedule.ChatWaiter]{list: store.ChatWaiters, key: func(w schedule.ChatWaiter) string { return string(w.ChatID) }},
		stale:   walk[string]{list: store.StaleSchedules, key: itself},
		overdue: walk[string]{list: store.OverdueTasks, key: itself},
	}, nil
}

// NotifyWaiters signals the runs that wait for chats which have ended. The chat
// remembers who waits until the signal is delivered, or that run is gone.
func (s *Schedules) NotifyWaiters(ctx context.Context) error {
	return s.waiters.each(ctx, maxConcurrent, func(ctx context.Context, waiter schedule.ChatWaiter) error {
		if _, due := s.signals.Try(string(waiter.ChatID)); !due {
			return nil
		}

		if _, err := s.runs.NotifyWaiter(ctx, waiter); err != nil {
			return err
		}

		return s.store.WaiterNotified(ctx, waiter.ChatID)
	})
}

// Repair brings Temporal's schedules up to date, takes ticks that were not taken, and
// repeats stops.
func (s *Schedules) Repair(ctx context.Context) error {
	var faults faults
	faults.add(s.stale.each(ctx, maxConcurrent, func(ctx context.Context, taskID string) error {
		if _, due := s.syncs.Try(taskID); !due {
			return nil
		}

		return s.tasks.Sync(ctx, taskID)
	}))
	faults.add(s.overdue.each(ctx, maxConcurrent, func(ctx context.Context, taskID string) error {
		for more, err := true, error(nil); more && ctx.Err() == nil; {
			if more, err = s.tasks.Tick(ctx, taskID); err != nil {
				return err
			}
		}

		return nil
	}))

	cancelled, err := s.store.CancelledRuns(ctx)
	faults.add(err)
	doAll(ctx, cancelled, maxConcurrent, func(run domain.RunChat) { faults.add(s.tasks.Stop(ctx, run)) })

	return faults.joined()
}
