package triggers

import (
	"context"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/trigger"
	"everloop/internal/durable"
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

	text, fits := payload.Render(c.trigger.Target.Prompt)
	if !fits {
		return decision{trigger.Failed, trigger.ReasonTemplate, "the message would be larger than 256 KiB"}, of, nil
	}

	of, err = s.send(ctx, c, text)

	return decision{outcome: trigger.Fired}, of, err
}

// send sends the message of a delivery to its session.
func (s *Service) send(ctx context.Context, c claimed, text string) (of started, err error) {
	target := c.trigger.Target
	message := domain.Send{
		Message: []domain.ContentPart{{Type: "text", Text: text}}, ClientMessageID: trigger.MessageID(c.id, c.attempt),
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerAPI, Unattended: true,
	}

	if target.Kind == trigger.TargetSession {
		message.SessionID, message.Delivery = *target.SessionID, target.Delivery
	} else {
		message.SessionID = domain.SessionID(c.workID)
		if err := s.deps.Sessions.EnsureSession(ctx, c.trigger.OwnerID, domain.NewSession{
			ID: message.SessionID, Class: domain.ClassSchedule, ParentRun: durable.TriggerParent(c.trigger.ID), Intent: c.trigger.Name,
		}); err != nil {
			return of, err
		}
	}

	ack, err := s.deps.Chats.Send(ctx, domain.Caller{User: domain.User{ID: c.trigger.OwnerID}}, message)

	return started{sessionID: message.SessionID, chatID: ack.ChatID}, err
}

// Fail ends a delivery as failed, for an administrator or when its workflow is lost repeatedly.
func (s *Service) Fail(ctx context.Context, id, reason string) error {
	return s.end(ctx, id, decision{trigger.Failed, domain.CodeRunLost, reason}, started{})
}
