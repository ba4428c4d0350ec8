package webhooks

import (
	"context"
	"sync"
	"time"

	"everloop/domain/webhook"
)

const (
	// lookEvery is the pause between two looks for due deliveries.
	lookEvery = 500 * time.Millisecond
	// maxConcurrent bounds the concurrent attempts of one process.
	maxConcurrent = 64
	// recordTime bounds the attempt to record an outcome.
	recordTime = 10 * time.Second
)

// Run sends due deliveries until ctx ends, and returns when no attempt is under way. Each attempt
// has its own goroutine, so that an endpoint that does not answer delays no other. Attempts that
// ctx cut off are released and sent again.
func (s *Service) Run(ctx context.Context) {
	var attempts sync.WaitGroup
	defer attempts.Wait()

	look := time.NewTicker(lookEvery)
	defer look.Stop()

	for slots := make(chan struct{}, maxConcurrent); ; {
		claimed, err := s.ClaimDeliveries(ctx, maxConcurrent-len(slots))
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("failed to look for webhook deliveries, retrying", "error", err)
		}

		for _, due := range claimed {
			slots <- struct{}{} // never blocks: only this loop takes slots

			attempts.Go(func() {
				defer func() { <-slots }()

				s.attempt(ctx, due)
			})
		}

		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// attempt makes one request and records its outcome.
func (s *Service) attempt(ctx context.Context, due webhook.DueDelivery) {
	answer := s.send(ctx, due)

	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()

	if ctx.Err() != nil && answer.Error != "" { // cut off here, not by the endpoint
		if err := s.ReleaseDelivery(record, due); err != nil {
			s.logger.Warn("failed to release a webhook delivery, retrying when its claim ends", "delivery_id", due.ID, "error", err)
		}

		return
	}

	disabled, err := s.RecordAttempt(record, due, answer)
	switch {
	case err != nil:
		s.logger.Warn("failed to record a webhook delivery, sending it again", "delivery_id", due.ID, "error", err)
	case disabled != "":
		s.logger.Warn("disabled a webhook that fails", "webhook_id", due.WebhookID)
	}
}

func (s *Service) send(ctx context.Context, due webhook.DueDelivery) webhook.Answer {
	began := time.Now()

	var secrets []string

	for _, sealed := range [][]byte{due.Secrets.Current, due.Secrets.Previous} {
		if sealed == nil {
			continue
		}

		secret, err := s.box.Open(purpose(due.WebhookID), sealed)
		if err != nil {
			return webhook.Answer{At: began, Error: "its secret cannot be read: the service has another encryption key"}
		}

		secrets = append(secrets, string(secret))
	}

	return s.sender.send(ctx, due.URL, due.ID, due.Body, secrets)
}
