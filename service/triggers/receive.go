package triggers

import (
	"context"
	"time"

	"everloop/domain"
	"everloop/domain/trigger"
)

// Received is the answer to a request at the address of a trigger.
type Received struct {
	DeliveryID string
	Repeat     bool
	Challenge  string // the text that Slack expects; empty: the request is a delivery
}

// Receive verifies and records a request at the address of a trigger, and starts what it is for.
// read reads the body: it is called when the trigger exists. All requests that do not prove their
// sender get the same error.
func (s *Service) Receive(
	ctx context.Context, triggerID string, headers map[string]string, read func() ([]byte, error),
) (out Received, err error) {
	of, err := s.hook(ctx, triggerID)
	if err != nil {
		return out, err
	}

	r := trigger.Request{Headers: headers, At: time.Now()}
	if r.Body, err = read(); err != nil {
		return out, err
	}

	secret, err := s.deps.Box.Open(purpose(triggerID), of.sealed)
	if err != nil {
		return out, err
	}

	if reason := trigger.Verify(of.auth, string(secret), r); reason != "" {
		key, _ := trigger.KeyOf(of.auth, r, nil)
		if err := s.recordInvalid(ctx, triggerID, key, reason); err != nil {
			return out, err
		}

		return out, domain.Newf(domain.Unauthenticated, "invalid_signature", "the request does not prove its sender")
	}

	payload := trigger.PayloadOf(of.auth, r)
	if out.Challenge = trigger.Challenge(of.auth, payload.Body); out.Challenge != "" {
		return out, nil
	}

	in := arrival{id: domain.NewID(), payload: payload, body: r.Body}
	in.key, in.derived = trigger.KeyOf(of.auth, r, payload.Body)

	return s.take(ctx, triggerID, in)
}

// take records a verified arrival and starts its workflow.
func (s *Service) take(ctx context.Context, triggerID string, in arrival) (out Received, err error) {
	done, err := s.record(ctx, triggerID, in, func(spec trigger.Spec) decision { return filter(spec.Filter, in.payload) })
	if err != nil {
		return out, err
	}

	if done.wait > 0 {
		e := domain.Newf(domain.RateLimited, "trigger_rate_limited", "the trigger gets more deliveries than its rate allows")
		e.RetryAfter = seconds(done.wait)

		return out, e
	}

	if done.due {
		s.start(ctx, triggerID, done.id)
	}

	return Received{DeliveryID: done.id, Repeat: done.repeat}, nil
}

// filter decides by the filter of a trigger.
func filter(condition string, payload trigger.Payload) decision {
	passes, err := trigger.Passes(condition, payload)

	switch {
	case err != nil:
		return decision{trigger.Failed, trigger.ReasonFilter, "the filter cannot be evaluated: " + err.Error()}
	case !passes:
		return decision{outcome: trigger.Filtered}
	default:
		return decision{}
	}
}
