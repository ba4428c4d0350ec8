package background

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// Schedules carry out the steps of scheduled tasks.
type Schedules struct {
	Tasks    ScheduledTasks
	Outcomes *Outcomes

	checking durable.Shared[string, contract.ScheduledRunOut] // by run
}

// ScheduledTasks take ticks, and begin and end runs. An error is retried.
type ScheduledTasks interface {
	Tick(ctx context.Context, taskID string) (more bool, err error)
	Begin(ctx context.Context, runID string) (schedule.RunNext, error)
	End(ctx context.Context, runID string) (schedule.RunNext, error)
	// ToCheck gives a run whose chat was completed; false: it is over.
	ToCheck(ctx context.Context, runID string) (run schedule.OutcomeRun, found bool, err error)
	EndChecks(ctx context.Context, runID string, checks []schedule.RunCheck) error
}

// TakeTicks takes the ticks of a task that are due.
func (s *Schedules) TakeTicks(ctx context.Context, in contract.ScheduleTickInput) (contract.TakeTicksOut, error) {
	more, err := s.Tasks.Tick(ctx, in.TaskID)
	return contract.TakeTicksOut{More: more}, err
}

// BeginScheduledRun sends the message of a run, once.
func (s *Schedules) BeginScheduledRun(ctx context.Context, in contract.ScheduledRunInput) (contract.ScheduledRunOut, error) {
	next, err := s.Tasks.Begin(ctx, in.RunID)
	return runOut(next), err
}

// EndScheduledRun writes the record of a run whose chat has ended.
func (s *Schedules) EndScheduledRun(ctx context.Context, in contract.ScheduledRunInput) (contract.ScheduledRunOut, error) {
	next, err := s.Tasks.End(ctx, in.RunID)
	return runOut(next), err
}

func runOut(next schedule.RunNext) contract.ScheduledRunOut {
	return contract.ScheduledRunOut{Ended: next == schedule.RunOver, Check: next == schedule.RunChecks}
}
