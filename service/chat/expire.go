package chat

import (
	"context"
	"errors"

	"everloop/activities/tools/questions"
	"everloop/domain"
)

// expirePage is how many questions are read at once.
const expirePage = 100

// ExpireQuestions has the default policies answer the questions whose time has ended. An
// answer of a user that comes first counts. It may be called by several processes, and is
// repeated for what fails.
func (s *Service) ExpireQuestions(ctx context.Context) error {
	var faults []error

	for after := ""; ; {
		expired, err := s.cfg.Store.ExpiredQuestions(ctx, after, expirePage)
		if err != nil {
			return errors.Join(append(faults, err)...)
		}

		for _, question := range expired {
			after = question.ID
			if err := s.expire(ctx, question); err != nil && !domain.HasCode(err, domain.CodeSessionBusy) {
				faults = append(faults, err)
			}
		}

		if len(expired) < expirePage || ctx.Err() != nil {
			return errors.Join(faults...)
		}
	}
}

func (s *Service) expire(ctx context.Context, question domain.ExpiredQuestion) error {
	result, err := questions.PolicyAnswer(question.Question, question.DefaultAnswer)
	if err != nil {
		return err
	}

	resolved, err := s.cfg.Store.ResolveQuestion(ctx, question.OwnerID, question.Question, domain.AnsweredByPolicy, string(result))
	if err != nil || !resolved {
		return err
	}

	run, err := s.cfg.Store.SessionRun(ctx, question.OwnerID, question.SessionID)
	if err != nil {
		return err
	}

	run.Open = true
	s.wake(ctx, run)

	return nil
}

// AnswerQuestion is Answer for a question that is named by its own id. It may be of another
// user's session, and have been escalated to the caller.
func (s *Service) AnswerQuestion(
	ctx context.Context,
	caller domain.Caller,
	questionID string,
	answer domain.Answer,
) (domain.AnswerAck, error) {
	question, err := s.cfg.Store.InboxQuestion(ctx, caller.User.ID, questionID)
	if err != nil {
		return domain.AnswerAck{}, err
	}

	answer.ToolCallID = question.ToolCallID

	return s.answerAs(ctx, question.OwnerID, caller, question.SessionID, answer)
}
