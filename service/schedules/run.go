package schedules

import (
	"context"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/domain/target"
	"everloop/internal/durable"
	"everloop/service/targets"
)

// Begin starts the target of a run, once however often it is called. It returns the session; empty:
// the run has none.
func (s *Service) Begin(ctx context.Context, in schedule.RunStart) (schedule.RunNext, domain.SessionID, error) {
	if err := s.findDue(ctx, &in); err != nil {
		return schedule.RunWaits, "", err
	}

	claimed, plan, err := s.cfg.Store.ClaimRun(ctx, in)
	if err != nil {
		return schedule.RunWaits, "", err
	}

	s.follow(ctx, plan)

	if claimed.Cancelled { // an earlier attempt may have started it
		return schedule.RunOver, claimed.SessionID, s.cfg.Targets.Stop(ctx, s.request(claimed).Started())
	}

	switch {
	case claimed.Ended:
		return schedule.RunOver, claimed.SessionID, nil
	case claimed.Begun:
		next, err := s.End(ctx, in.RunID)
		return next, claimed.SessionID, err
	}

	next, err := s.begin(ctx, in.RunID, claimed)

	return next, claimed.SessionID, err
}

func (s *Service) begin(ctx context.Context, runID string, claimed schedule.ClaimedRun) (schedule.RunNext, error) {
	started, err := s.cfg.Targets.Start(ctx, s.request(claimed))
	if err != nil {
		e := domain.AsError(err)
		if e.Retryable() {
			return schedule.RunWaits, err
		}

		plan, err := s.cfg.Store.BlockRun(ctx, runID, e.Code, e.Message)
		if err == nil {
			s.follow(ctx, plan)
		}

		return schedule.RunOver, err
	}

	cancelled, err := s.cfg.Store.RunBegan(ctx, runID, started)
	if err != nil {
		return schedule.RunWaits, err
	}

	if cancelled {
		return schedule.RunWaits, s.stopStarted(ctx, claimed.OwnerID, started)
	}

	if !started.Kind.Chats() { // it may have ended, such as an issue without an agent
		return s.End(ctx, runID)
	}

	return schedule.RunWaits, nil
}

func (s *Service) stopStarted(ctx context.Context, ownerID string, started target.Started) error {
	if started.Kind.Chats() {
		return s.Stop(ctx, domain.RunChat{OwnerID: ownerID, SessionID: started.SessionID, ChatID: started.ChatID})
	}

	return s.cfg.Targets.Stop(ctx, started)
}

// findDue finds when a run was due with the jitter of its tick, which the Schedule knows.
func (s *Service) findDue(ctx context.Context, in *schedule.RunStart) error {
	taskID, _, valid := schedule.SplitRunID(in.RunID)
	if !valid || in.Resumed {
		return nil
	}

	task, _, _, err := s.cfg.Store.RecordedUntil(ctx, taskID)
	if domain.HasCode(err, "scheduled_task_not_found") || err == nil && task.JitterS == 0 {
		return nil
	}

	if err != nil {
		return err
	}

	seen, _, err := s.cfg.Engine.DescribeSchedule(ctx, taskID)
	if due, started := seen.Started(in.RunID); started {
		in.Due = &due
	}

	return err
}

// Cancel stops a run whose workflow is cancelled. The run has ended when its chat is.
func (s *Service) Cancel(ctx context.Context, runID string) error {
	plan, err := s.cfg.Store.StopRun(ctx, runID)
	if err == nil {
		s.follow(ctx, plan)
	}

	return err
}

// request returns what a run starts. A persistent task has the session of its earlier runs.
func (s *Service) request(run schedule.ClaimedRun) targets.Request {
	task := run.Task

	class := domain.ClassSchedule
	if task.Persistent { // it is of all runs of the task
		class = domain.ClassChat
	}

	in := targets.Request{
		OwnerID: run.OwnerID, Parent: durable.TaskParent(run.TaskID), Key: run.RunID + "/" + run.Execution,
		Target: task.Start(), Values: task.Values(run.Tick), Title: task.Title, Waiter: durable.ScheduledRunWorkflowID(run.RunID),
		Session: domain.NewSession{
			ID: run.SessionID, Class: class, ParentRun: durable.TaskParent(run.TaskID), Model: task.Model, WorkspaceID: task.WorkspaceID,
			SolutionID: task.SolutionID, BizRoleID: task.BizRoleID, MemoryEnabled: task.MemoryEnabled,
			Setup: domain.SessionSetup{
				Budget: task.Budget, SkipConfirmations: task.SkipConfirmations, QuestionPolicy: task.QuestionPolicy,
				Skills: task.Skills, EnvBuckets: task.EnvBuckets, Permissions: task.Rules(), Network: task.Network,
			},
		},
		Send: domain.Send{
			Headless: task.SkipConfirmations, OutputSchema: task.OutputSchema, Trigger: domain.TriggerSchedule,
			ClientMessageID: schedule.MessageID(run.RunID, run.Execution),
		},
	}
	if task.Mode != nil {
		in.Session.Mode, in.Send.Mode = *task.Mode, *task.Mode
	}

	return in
}

// End writes the record of a run when what it has started has ended, unless its outcome must be
// checked before.
func (s *Service) End(ctx context.Context, runID string) (schedule.RunNext, error) {
	started, err := s.cfg.Store.StartedBy(ctx, runID)
	if err != nil {
		return schedule.RunWaits, err
	}

	if started != nil && !started.Kind.Chats() {
		return s.endStarted(ctx, runID, *started)
	}

	next, plan, err := s.cfg.Store.EndRun(ctx, runID)
	if err != nil {
		return schedule.RunWaits, err
	}

	s.follow(ctx, plan)

	return next, nil
}

func (s *Service) endStarted(ctx context.Context, runID string, started target.Started) (schedule.RunNext, error) {
	end, used, ended, err := s.cfg.Targets.EndOf(ctx, started)
	if err != nil || !ended {
		return schedule.RunWaits, err
	}

	plan, err := s.cfg.Store.EndStarted(ctx, runID, end, used)
	if err != nil {
		return schedule.RunWaits, err
	}

	s.follow(ctx, plan)

	return schedule.RunOver, nil
}

// ToCheck returns a run whose outcome must be checked; false: it has ended.
func (s *Service) ToCheck(ctx context.Context, runID string) (run schedule.OutcomeRun, found bool, err error) {
	return s.cfg.Store.RunToCheck(ctx, runID)
}

// EndChecks writes the record of a run whose outcome was checked.
func (s *Service) EndChecks(ctx context.Context, runID string, checks []schedule.RunCheck) error {
	plan, err := s.cfg.Store.EndChecks(ctx, runID, checks)
	if err == nil {
		s.follow(ctx, plan)
	}

	return err
}
