package schedules

import (
	"context"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// Begin makes the session of a run and sends its message, once however often it is
// called. It returns the session; empty: the run has none.
func (s *Service) Begin(ctx context.Context, in schedule.RunStart) (schedule.RunNext, domain.SessionID, error) {
	if err := s.findDue(ctx, &in); err != nil {
		return schedule.RunWaits, "", err
	}

	claimed, plan, err := s.cfg.Store.ClaimRun(ctx, in)
	if err != nil {
		return schedule.RunWaits, "", err
	}

	s.follow(ctx, plan)

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
	chatID, err := s.send(ctx, claimed)
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

	cancelled, err := s.cfg.Store.RunBegan(ctx, runID, chatID)
	if err == nil && cancelled {
		err = s.Stop(ctx, domain.RunChat{OwnerID: claimed.OwnerID, SessionID: claimed.SessionID, ChatID: chatID})
	}

	return schedule.RunWaits, err
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

func (s *Service) send(ctx context.Context, run schedule.ClaimedRun) (chatID domain.ChatID, err error) {
	task := run.Task
	if err := s.ensureSession(ctx, run); err != nil {
		return "", err
	}

	send := domain.Send{
		SessionID: run.SessionID, Message: []domain.ContentPart{{Type: "text", Text: task.Message(run.Tick)}},
		Headless: task.SkipConfirmations, OutputSchema: task.OutputSchema, ClientMessageID: schedule.MessageID(run.RunID, run.Execution),
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerSchedule, Waiter: durable.ScheduledRunWorkflowID(run.RunID),
	}
	if task.Mode != nil {
		send.Mode = *task.Mode
	}

	ack, err := s.cfg.Chats.Send(ctx, caller(run.OwnerID), send)

	return ack.ChatID, err
}

// ensureSession makes the session of a run, unless it is there. Rights that the owner has lost since the
// task was made block the run.
func (s *Service) ensureSession(ctx context.Context, run schedule.ClaimedRun) error {
	task := run.Task

	class := domain.ClassSchedule
	if task.Persistent { // it is of all runs of the task
		class = domain.ClassChat
	}

	taskID, _, _ := schedule.SplitRunID(run.RunID)
	parent := durable.TaskParent(taskID)

	if task.AgentID != nil {
		return s.cfg.Agents.StartSession(ctx, run.OwnerID, prodagent.Start{
			SessionID: run.SessionID, AgentID: *task.AgentID, Class: class, ParentRun: parent, Intent: task.Title, Model: task.Model,
			Budget:            task.Budget,
			SkipConfirmations: task.SkipConfirmations, QuestionPolicy: task.QuestionPolicy, WorkspaceID: task.WorkspaceID,
		})
	}

	if err := s.checkRole(ctx, run.OwnerID, task.Setup); err != nil {
		return err
	}

	made := domain.NewSession{
		ID: run.SessionID, Class: class, ParentRun: parent, Intent: task.Title, Model: task.Model, WorkspaceID: task.WorkspaceID,
		SolutionID: task.SolutionID, BizRoleID: task.BizRoleID, MemoryEnabled: task.MemoryEnabled,
		Setup: domain.SessionSetup{
			Budget: task.Budget, SkipConfirmations: task.SkipConfirmations, QuestionPolicy: task.QuestionPolicy,
			Skills: task.Skills, EnvBuckets: task.EnvBuckets, Permissions: task.Rules(), Network: task.Network,
		},
	}
	if task.Mode != nil {
		made.Mode = *task.Mode
	}

	return s.cfg.Store.EnsureSession(ctx, run.OwnerID, made)
}

// End writes the record of a run whose chat has ended, unless its outcome must be
// checked before.
func (s *Service) End(ctx context.Context, runID string) (schedule.RunNext, error) {
	next, plan, err := s.cfg.Store.EndRun(ctx, runID)
	if err != nil {
		return schedule.RunWaits, err
	}

	s.follow(ctx, plan)

	return next, nil
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
