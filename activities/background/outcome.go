package background

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/commands"
	"everloop/activities/tools/search"
	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// Outcomes check what must hold after scheduled runs: files that must exist, and commands
// that must pass in the sandbox of the run's session.
type Outcomes struct {
	Sandbox    tools.Sandbox
	Workspaces tools.Workspaces
	// Root returns the directory of a session's files on this machine.
	Root func(ctx context.Context, sessionID domain.SessionID, uid int) (string, error)
	// Env returns the variables of a session's commands.
	Env    func(ctx context.Context, session domain.Session) (map[string]string, error)
	Logger *slog.Logger
}

const (
	// outcomeAttempts is how often checks are started that lose their worker or fail by a
	// fault of the service.
	outcomeAttempts = 5
	// outcomeLook is how often a run is looked at while its checks run: it may be
	// cancelled, or its session deleted.
	outcomeLook = 2 * time.Second
)

var errOutcomeOver = errors.New("the run is over")

// CheckScheduledRun checks the outcome of a run whose chat has ended, and writes its
// record. Checks that were lost with their worker run again, all of them.
func (s *Schedules) CheckScheduledRun(ctx context.Context, in contract.ScheduledRunInput) (contract.ScheduledRunOut, error) {
	attempt := int(activity.GetInfo(ctx).Attempt)

	return s.checking.Run(ctx, in.RunID, 0, func(ctx context.Context) (contract.ScheduledRunOut, error) {
		run, found, err := s.Tasks.ToCheck(ctx, in.RunID)
		if err != nil || !found {
			return contract.ScheduledRunOut{Ended: err == nil}, err
		}

		checks, err := s.check(ctx, run, attempt)
		if err != nil && !errors.Is(err, errOutcomeOver) {
			return contract.ScheduledRunOut{}, err
		}

		err = s.Tasks.EndChecks(ctx, in.RunID, checks)

		return contract.ScheduledRunOut{Ended: err == nil}, err
	})
}

// Drain waits until no checks run, when the worker has stopped.
func (s *Schedules) Drain(ctx context.Context) { s.checking.Wait(ctx) }

// check carries out the checks of a run. After too many attempts those that could not be
// carried out are not met.
func (s *Schedules) check(ctx context.Context, run schedule.OutcomeRun, attempt int) ([]schedule.RunCheck, error) {
	if run.Cancelled {
		return nil, errOutcomeOver
	}

	if attempt > outcomeAttempts {
		return unchecked(run), nil
	}

	work, end := context.WithCancelCause(ctx)
	defer end(nil)

	watched := make(chan struct{})
	go func() {
		defer close(watched)

		s.watch(work, end, run.RunID)
	}()

	checks, err := s.Outcomes.check(work, run)
	cause := context.Cause(work)

	end(nil)
	<-watched

	switch {
	case err == nil:
		return checks, nil
	case cause != nil:
		return checks, cause
	case attempt == outcomeAttempts:
		s.Outcomes.Logger.Error("failed to check the outcome of a scheduled run",
			"run_id", run.RunID, "session_id", run.Session.ID, "error", err)

		return unchecked(run), nil
	default:
		return checks, durable.Retry("outcome_check", "the checks of the outcome could not be carried out", outcomeLook)
	}
}

// watch ends checks of a run that has ended, and those of a worker that shuts down: they
// run again on another one.
func (s *Schedules) watch(work context.Context, end context.CancelCauseFunc, runID string) {
	look := time.NewTicker(outcomeLook)
	defer look.Stop()

	draining := activity.GetWorkerStopChannel(work)

	for {
		select {
		case <-work.Done():
			return
		case <-draining:
			end(durable.Retry("outcome_check", durable.ErrDraining.Error(), durable.DrainPause))
			return
		case <-look.C:
			if run, found, err := s.Tasks.ToCheck(work, runID); err == nil && (!found || run.Cancelled) {
				end(errOutcomeOver)
				return
			}
		}
	}
}

// unchecked returns the checks of a run none of which could be carried out.
func unchecked(run schedule.OutcomeRun) (checks []schedule.RunCheck) {
	const why = "it could not be checked because of a fault of the service"
	for _, pattern := range run.Files {
		checks = append(checks, schedule.RunCheck{Kind: schedule.CheckFile, Subject: pattern, Reason: why})
	}

	for _, command := range run.Commands {
		checks = append(checks, schedule.RunCheck{Kind: schedule.CheckCommand, Subject: command, Reason: why})
	}

	return checks
}

// check runs the commands in their order, and then looks for the files, which commands
// may write.
func (o *Outcomes) check(ctx context.Context, run schedule.OutcomeRun) (checks []schedule.RunCheck, err error) {
	session := run.Session

	view := tools.SessionView{ID: session.ID, OwnerID: session.OwnerID, SandboxUID: session.SandboxUID}
	if view.Env, err = o.Env(ctx, session); err != nil {
		return nil, err
	}

	if view.Root, err = o.Root(ctx, session.ID, session.SandboxUID); err != nil {
		return nil, err
	}

	for _, command := range run.Commands {
		check, err := commands.RunCheck(ctx, o.Sandbox, view, command)
		if err != nil {
			return checks, err
		}

		checks = append(checks, check)
	}

	for _, pattern := range run.Files {
		began := time.Now()

		why, err := search.FileExists(ctx, o.Workspaces, view, pattern)
		if err != nil {
			return checks, err
		}

		checks = append(checks, schedule.RunCheck{
			Kind: schedule.CheckFile, Subject: pattern, Met: why == "", Reason: why, DurationMS: time.Since(began).Milliseconds(),
		})
	}

	return checks, nil
}
