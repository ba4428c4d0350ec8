package schedules

import (
	"context"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// Tick takes the ticks of a task that are due, and starts their runs. With true more
// are due.
func (s *Service) Tick(ctx context.Context, taskID string) (more bool, err error) {
	plan, err := s.cfg.Store.TakeTicks(ctx, taskID)
	if err != nil {
		return false, err
	}

	s.follow(ctx, taskID, plan)

	return plan.More, nil
}

// Begin makes the session of a run and sends its message, once however often it is
// called.
func (s *Service) Begin(ctx context.Context, runID string) (schedule.RunNext, error) {
	claimed, plan, err := s.cfg.Store.ClaimRun(ctx, runID)
	if err != nil {
		return schedule.RunWaits, err
	}

	s.follow(ctx, plan.TaskID, plan)

	switch {
	case claimed.Ended:
		return schedule.RunOver, nil
	case claimed.Begun:
		return s.End(ctx, runID)
	}

	chatID, err := s.send(ctx, claimed)
	if err != nil {
		e := domain.AsError(err)
		if e.Retryable() {
			return schedule.RunWaits, err
		}

		plan, err := s.cfg.Store.BlockRun(ctx, runID, e.Code, e.Message)
		if err == nil {
			s.follow(ctx, plan.TaskID, plan)
		}

		return schedule.RunOver, err
	}

	cancelled, err := s.cfg.Store.RunBegan(ctx, runID, chatID)
	if err == nil && cancelled {
		err = s.Stop(ctx, domain.RunChat{OwnerID: claimed.OwnerID, SessionID: claimed.SessionID, ChatID: chatID})
	}

	return schedule.RunWaits, err
}

func (s *Service) send(ctx context.Context, run schedule.ClaimedRun) (chatID domain.ChatID, err error) {
	task := run.Task

	class := domain.ClassSchedule
	if task.Persistent { // it is of all runs of the task
		class = domain.ClassChat
	}

	err = s.cfg.Store.EnsureSession(ctx, run.OwnerID, domain.NewSession{
		ID: run.SessionID, Class: class, Intent: task.Title, Model: task.Model, WorkspaceID: task.WorkspaceID,
		Setup: domain.SessionSetup{Budget: task.Budget, SkipConfirmations: task.SkipConfirmations, QuestionPolicy: task.QuestionPolicy},
	})
	if err != nil {
		return "", err
	}

	ack, err := s.cfg.Chats.Send(ctx, caller(run.OwnerID), domain.Send{
		SessionID: run.SessionID, Message: []domain.ContentPart{{Type: "text", Text: task.Prompt}},
		Headless: task.SkipConfirmations, OutputSchema: task.OutputSchema, ClientMessageID: schedule.MessageID(run.RunID),
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerSchedule, Waiter: durable.ScheduledRunWorkflowID(run.RunID),
	})

	return ack.ChatID, err
}

// End writes the record of a run whose chat has ended, unless its outcome has to be
// checked before.
func (s *Service) End(ctx context.Context, runID string) (schedule.RunNext, error) {
	next, plan, err := s.cfg.Store.EndRun(ctx, runID)
	if err != nil {
		return schedule.RunWaits, err
	}

	s.follow(ctx, plan.TaskID, plan)

	return next, nil
}

// ToCheck gives a run whose outcome is to be checked; false: it is over.
func (s *Service) ToCheck(ctx context.Context, runID string) (run schedule.OutcomeRun, found bool, err error) {
	return s.cfg.Store.RunToCheck(ctx, runID)
}

// EndChecks writes the record of a run whose outcome was checked.
func (s *Service) EndChecks(ctx context.Context, runID string, checks []schedule.RunCheck) error {
	plan, err := s.cfg.Store.EndChecks(ctx, runID, checks)
	if err == nil {
		s.follow(ctx, plan.TaskID, plan)
	}

	return err
}
