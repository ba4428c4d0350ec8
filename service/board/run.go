package board

import (
	"context"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/internal/durable"
)

// Begin makes the session of a run and sends the agent its message, once however often it
// is called. With true the run is over.
func (s *Service) Begin(ctx context.Context, runID string) (ended bool, err error) {
	claimed, plan, err := s.cfg.Store.ClaimIssueRun(ctx, runID)
	if err != nil {
		return false, err
	}

	s.follow(ctx, plan)

	switch {
	case claimed.Ended:
		return true, nil
	case claimed.Begun:
		return s.End(ctx, runID)
	}

	chatID, err := s.send(ctx, claimed)
	if err != nil {
		e := domain.AsError(err)
		if e.Retryable() {
			return false, err
		}

		plan, err := s.cfg.Store.BlockIssueRun(ctx, runID, e.Code, e.Message)
		if err == nil {
			s.follow(ctx, plan)
		}

		return true, err
	}

	cancelled, err := s.cfg.Store.IssueRunBegan(ctx, runID, chatID)
	if err == nil && cancelled {
		err = s.Stop(ctx, domain.RunChat{OwnerID: claimed.OwnerID, SessionID: claimed.SessionID, ChatID: chatID})
	}

	return false, err
}

func (s *Service) send(ctx context.Context, run board.ClaimedIssueRun) (chatID domain.ChatID, err error) {
	err = s.cfg.Agents.StartSession(ctx, run.OwnerID, prodagent.Start{
		SessionID: run.SessionID, Class: domain.ClassIssue, InstanceID: run.AgentID, Intent: run.Title, WorkspaceID: &run.WorkspaceID,
	})
	if err != nil {
		return "", err
	}

	ack, err := s.cfg.Chats.Send(ctx, caller(run.OwnerID), domain.Send{
		SessionID: run.SessionID, Message: []domain.ContentPart{{Type: "text", Text: run.Message}},
		ClientMessageID: board.MessageID(run.RunID, run.Round),
		Delivery:        domain.DeliverEnqueue, Trigger: domain.TriggerIssue, Waiter: durable.IssueRunWorkflowID(run.RunID),
	})

	return ack.ChatID, err
}

// End writes what a run came to whose chat has ended, or sends the agent the comments
// that came meanwhile. With false the run goes on.
func (s *Service) End(ctx context.Context, runID string) (ended bool, err error) {
	ended, again, plan, err := s.cfg.Store.EndIssueRun(ctx, runID)
	if err != nil {
		return false, err
	}

	s.follow(ctx, plan)

	if again {
		return s.Begin(ctx, runID)
	}

	return ended, nil
}
