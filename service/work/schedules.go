package work

import (
	"context"
	"errors"
	"time"

	"everloop/domain"
	"everloop/internal/retry"
)

// ScheduleStore keeps scheduled tasks and their runs.
type ScheduleStore interface {
	StaleSchedules(ctx context.Context, after string, limit int) ([]string, error)
	OverdueTasks(ctx context.Context, after string, limit int) ([]string, error)
	CancelledRuns(ctx context.Context) ([]domain.RunChat, error)
}

// ScheduledTasks does what was not done in its time.
type ScheduledTasks interface {
	Sync(ctx context.Context, taskID string) error
	Tick(ctx context.Context, taskID string) (more bool, err error)
	Stop(ctx context.Context, run domain.RunChat) error
}

// Schedules repairs what a crash or an outage left of scheduled tasks.
type Schedules struct {
	store ScheduleStore
	tasks ScheduledTasks

	stale   walk[string]
	overdue walk[string]
	syncs   *retry.Pauses // by task
}

// NewSchedules checks that everything is there.
func NewSchedules(store ScheduleStore, tasks ScheduledTasks) (*Schedules, error) {
	if store == nil || tasks == nil {
		return nil, errors.New("work: schedules need a store and tasks")
	}

	return &Schedules{
		store: store, tasks: tasks, syncs: retry.NewPauses(time.Now),
		stale:   walk[string]{list: store.StaleSchedules, key: itself},
		overdue: walk[string]{list: store.OverdueTasks, key: itself},
	}, nil
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
