package triggers

import (
	"context"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/target"
	"everloop/domain/trigger"
	"everloop/internal/durable"
	"everloop/service/targets"
)

// Register binds the steps of deliveries to their names.
func (s *Service) Register(w worker.ActivityRegistry) { contract.FireTrigger.Handle(w, s.Fire) }

// Fire implements contract.FireTrigger. What it starts has ids of the delivery and its attempt, so
// that a repetition starts nothing twice.
func (s *Service) Fire(ctx context.Context, in contract.TriggerInput) (out struct{}, err error) {
	c, found, err := s.claim(ctx, in.DeliveryID)
	if err != nil || !found {
		return out, err
	}

	d, of, err := s.fire(ctx, c)
	if err != nil {
		e := domain.AsError(err)
		if e.Retryable() {
			return out, err
		}

		d = decision{trigger.Failed, e.Code, e.Message}
	}

	return out, s.end(ctx, c.id, d, of)
}

func (s *Service) fire(ctx context.Context, c claimed) (d decision, of started, err error) {
	if c.paused.outcome != "" {
		return c.paused, of, nil
	}

	auth := trigger.Auth("")
	if c.trigger.Auth != nil {
		auth = *c.trigger.Auth
	}

	payload := trigger.PayloadOf(auth, trigger.Request{Headers: c.headers, Body: c.body})
	if c.trigger.Kind == trigger.RunEnded {
		payload.Event = c.event
	}

	if d = filter(c.trigger.Filter, payload); d.outcome != "" {
		return d, of, nil
	}

	values, fits := payload.Values(c.trigger.Target)
	if !fits {
		return decision{trigger.Failed, trigger.ReasonTemplate, "the texts of the target would be larger than 256 KiB"}, of, nil
	}

	of, err = s.begin(ctx, c, values)

	return decision{outcome: trigger.Fired}, of, err
}

// begin starts the target of a delivery.
func (s *Service) begin(ctx context.Context, c claimed, values target.Values) (of started, err error) {
	request := targets.Request{
		OwnerID: c.trigger.OwnerID, Parent: durable.TriggerParent(c.trigger.ID), Key: c.workID,
		Target: c.trigger.Target, Values: values, Title: c.trigger.Name,
		Session: domain.NewSession{ID: domain.SessionID(c.workID), Class: domain.ClassSchedule},
		Send: domain.Send{
			ClientMessageID: trigger.MessageID(c.id, c.attempt), Delivery: c.trigger.Target.Delivery,
			Trigger: domain.TriggerAPI, Unattended: true,
		},
	}

	// The run is named before it starts: it may end before this step does, and what its end
	// starts belongs to the chain of this delivery.
	if of.run = runOf(request.Started()); of.run != "" {
		if err := s.nameRun(ctx, c.id, of.run); err != nil {
			return of, err
		}
	}

	begun, err := s.targets.Start(ctx, request)
	of.sessionID, of.chatID = begun.SessionID, begun.ChatID

	return of, err
}

// runOf names a DAG run or an issue as the ends of runs do; chats have no name.
func runOf(s target.Started) string {
	switch s.Kind {
	case target.DAG:
		return "dag/" + s.SolutionID + "/" + s.RunID
	case target.Issue:
		return "issue/" + s.IssueID
	default:
		return ""
	}
}

// Fail ends a delivery as failed, for an administrator or when its workflow is lost repeatedly.
func (s *Service) Fail(ctx context.Context, id, reason string) error {
	return s.end(ctx, id, decision{trigger.Failed, domain.CodeRunLost, reason}, started{})
}
