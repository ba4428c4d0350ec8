package webhooks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"everloop/domain/webhook"
)

// Due returns attempts that are due, each to one process, and records how they ended.
type Due interface {
	ClaimDeliveries(ctx context.Context, limit int) ([]webhook.DueDelivery, error)
	// RecordAttempt returns why the webhook was disabled by it; empty: it was not.
	RecordAttempt(ctx context.Context, due webhook.DueDelivery, answer webhook.Answer) (disabled string, err error)
	ReleaseDelivery(ctx context.Context, due webhook.DueDelivery) error
}

// Sender makes one signed request, with the newest secret first. It ends within half a
// minute.
type Sender interface {
	Send(ctx context.Context, url, id, body string, secrets []string) webhook.Answer
}

const (
	// lookEvery is the pause between two looks for what is due.
	lookEvery = 500 * time.Millisecond
	// maxConcurrent bounds the attempts of one process that are under way.
	maxConcurrent = 64
	// recordTime bounds how long the outcome of an attempt is tried to be recorded.
	recordTime = 10 * time.Second
)

// Deliverer sends what is due. Each attempt has a goroutine of its own, so that an
// endpoint which does not answer delays no other.
type Deliverer struct {
	due    Due
	box    Box
	sender Sender
	logger *slog.Logger
}

// NewDeliverer checks that everything is there.
func NewDeliverer(due Due, box Box, sender Sender, logger *slog.Logger) (*Deliverer, error) {
	if due == nil || box == nil || sender == nil || logger == nil {
		return nil, errors.New("webhooks: a deliverer needs deliveries, a box, a sender and a logger")
	}

	return &Deliverer{due, box, sender, logger}, nil
}

// Run sends until ctx ends, and returns when no attempt is under way any more. What was
// cut off is released and sent again.
func (d *Deliverer) Run(ctx context.Context) {
	var attempts sync.WaitGroup
	defer attempts.Wait()

	slots := make(chan struct{}, maxConcurrent)
	for pause := time.Duration(0); sleep(ctx, pause); {
		claimed, err := d.due.ClaimDeliveries(ctx, maxConcurrent-len(slots))
		if err != nil && ctx.Err() == nil {
			d.logger.Warn("failed to look for webhook deliveries, retrying", "error", err)
		}

		for _, due := range claimed {
			slots <- struct{}{} // there is room: only this loop takes slots

			attempts.Go(func() {
				defer func() { <-slots }()

				d.attempt(ctx, due)
			})
		}

		pause = lookEvery
	}
}

// attempt makes one request and records its outcome.
func (d *Deliverer) attempt(ctx context.Context, due webhook.DueDelivery) {
	answer := d.send(ctx, due)

	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()

	if ctx.Err() != nil && answer.Error != "" { // it was cut off, which says nothing about the endpoint
		if err := d.due.ReleaseDelivery(record, due); err != nil {
			d.logger.Warn("failed to release a webhook delivery, retrying when its claim ends", "delivery_id", due.ID, "error", err)
		}

		return
	}

	disabled, err := d.due.RecordAttempt(record, due, answer)
	switch {
	case err != nil:
		d.logger.Warn("failed to record a webhook delivery, sending it again", "delivery_id", due.ID, "error", err)
	case disabled != "":
		d.logger.Warn("disabled a webhook that fails", "webhook_id", due.WebhookID)
	}
}

func (d *Deliverer) send(ctx context.Context, due webhook.DueDelivery) webhook.Answer {
	began := time.Now()

	var secrets []string

	for _, sealed := range [][]byte{due.Secrets.Current, due.Secrets.Previous} {
		if sealed == nil {
			continue
		}

		secret, err := d.box.Open(purpose(due.WebhookID), sealed)
		if err != nil {
			return webhook.Answer{At: began, Error: "its secret cannot be read: the service has another encryption key"}
		}

		secrets = append(secrets, string(secret))
	}

	return d.sender.Send(ctx, due.URL, due.ID, due.Body, secrets)
}

// sleep reports whether the pause has passed before ctx ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
