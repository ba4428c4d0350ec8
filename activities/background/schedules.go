// Package background has the activities of scheduled runs.
package background

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// Schedules carry out the steps of scheduled tasks.
type Schedules struct {
	Tasks    ScheduledTasks
	Outcomes *Outcomes

	checking durable.Shared[string, contract.ScheduledRunOut] // by run
}

// ScheduledTasks start and end runs. An error is retried.
type ScheduledTasks interface {
	Begin(ctx context.Context, in schedule.RunStart) (schedule.RunNext, domain.SessionID, error)
	Cancel(ctx context.Context, runID string) error
	End(ctx context.Context, runID string) (schedule.RunNext, error)
	// ToCheck gives a run whose chat was completed; false: it has ended.
	ToCheck(ctx context.Context, runID string) (run schedule.OutcomeRun, found bool, err error)
	EndChecks(ctx context.Context, runID string, checks []schedule.RunCheck) error
}

// BeginScheduledRun makes the record of a run and sends its message, once.
func (s *Schedules) BeginScheduledRun(ctx context.Context, in contract.BeginScheduledRunInput) (contract.ScheduledRunOut, error) {
	next, sessionID, err := s.Tasks.Begin(
		ctx,
		schedule.RunStart{RunID: in.RunID, Execution: in.Execution, StartedAt: in.StartedAt, Resumed: in.Resumed},
	)
	out := runOut(next)
	out.SessionID = sessionID

	return out, err
}

// StopScheduledRun stops the chat of a run whose workflow is cancelled.
func (s *Schedules) StopScheduledRun(ctx context.Context, in contract.ScheduledRunInput) (struct{}, error) {
	return struct{}{}, s.Tasks.Cancel(ctx, in.RunID)
}

// EndScheduledRun writes the record of a run whose chat has ended.
func (s *Schedules) EndScheduledRun(ctx context.Context, in contract.ScheduledRunInput) (contract.ScheduledRunOut, error) {
	next, err := s.Tasks.End(ctx, in.RunID)
	return runOut(next), err
}

func runOut(next schedule.RunNext) contract.ScheduledRunOut {
	return contract.ScheduledRunOut{Ended: next == schedule.RunOver, Check: next == schedule.RunChecks}
}
