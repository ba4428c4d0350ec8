package board

import (
	"context"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/internal/durable"
)

// Begin creates the session of a run and sends the agent its message. It is idempotent, and
// returns the session, and true when the run has ended.
func (s *Service) Begin(ctx context.Context, runID string) (sessionID domain.SessionID, ended bool, err error) {
	claimed, plan, err := s.ClaimIssueRun(ctx, runID)
	if err := s.follow(ctx, plan, err); err != nil {
		return "", false, err
	}

	switch {
	case claimed.Ended:
		return claimed.SessionID, true, nil
	case claimed.Begun:
		ended, err = s.End(ctx, runID)
		return claimed.SessionID, ended, err
	}

	ended, err = s.begin(ctx, claimed)

	return claimed.SessionID, ended, err
}

func (s *Service) begin(ctx context.Context, claimed board.ClaimedIssueRun) (ended bool, err error) {
	chatID, err := s.send(ctx, claimed)
	if err != nil {
		e := domain.AsError(err)
		if e.Retryable() {
			return false, err
		}

		return true, s.FailRun(ctx, claimed.RunID, e.Code, e.Message)
	}

	cancelled, err := s.IssueRunBegan(ctx, claimed.RunID, chatID)
	if err == nil && cancelled {
		err = s.Stop(ctx, domain.RunChat{OwnerID: claimed.OwnerID, SessionID: claimed.SessionID, ChatID: chatID})
	}

	return false, err
}

func (s *Service) send(ctx context.Context, run board.ClaimedIssueRun) (chatID domain.ChatID, err error) {
	err = s.deps.Agents.StartSession(ctx, run.OwnerID, prodagent.Start{
		SessionID:   run.SessionID,
		Class:       domain.ClassIssue,
		ParentRun:   durable.IssueParent(run.IssueID),
		InstanceID:  run.AgentID,
		Intent:      run.Title,
		WorkspaceID: &run.WorkspaceID,
	})
	if err != nil {
		return "", err
	}

	ack, err := s.deps.Chats.Send(ctx, caller(run.OwnerID), domain.Send{
		SessionID: run.SessionID, Message: []domain.ContentPart{{Type: "text", Text: run.Message}},
		ClientMessageID: board.MessageID(run.RunID, run.Round),
		Delivery:        domain.DeliverEnqueue, Trigger: domain.TriggerIssue, Waiter: durable.IssueRunWorkflowID(run.RunID),
	})

	return ack.ChatID, err
}

// End records the outcome of a run whose chat has ended, or sends the agent the comments that
// came in the meantime. It returns false when the run continues.
func (s *Service) End(ctx context.Context, runID string) (ended bool, err error) {
	ended, again, plan, err := s.EndIssueRun(ctx, runID)
	if err := s.follow(ctx, plan, err); err != nil {
		return false, err
	}

	if again {
		_, ended, err = s.Begin(ctx, runID)
		return ended, err
	}

	return ended, nil
}
