package chat

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// queues is a store that applies every message in one way.
type queues struct {
	Store
	applied domain.Delivery
}

func (q queues) SessionRun(context.Context, string, domain.SessionID) (domain.SessionRun, error) {
	return domain.SessionRun{}, nil
}

func (q queues) Enqueue(context.Context, string, domain.Send) (domain.Enqueued, error) {
	return domain.Enqueued{Ack: domain.SendAck{DeliveryApplied: q.applied}}, nil
}

// A run that waits for an answer is not signalled for each message of a schedule or an issue
// that is queued behind it.
func TestService_Send_wakesOnlyForWhatTheRunMustSee(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		trigger domain.Trigger
		applied domain.Delivery
		wakes   int
	}{
		"queued schedule":      {domain.TriggerSchedule, domain.DeliverEnqueue, 0},
		"queued issue":         {domain.TriggerIssue, domain.DeliverEnqueue, 0},
		"schedule of an idle":  {domain.TriggerSchedule, domain.DeliverRun, 1},
		"issue of an idle":     {domain.TriggerIssue, domain.DeliverRun, 1},
		"steered schedule":     {domain.TriggerSchedule, domain.DeliverSteer, 1},
		"interrupting issue":   {domain.TriggerIssue, domain.DeliverInterrupt, 1},
		"queued by the user":   {domain.TriggerUser, domain.DeliverEnqueue, 1},
		"user of an idle":      {domain.TriggerUser, domain.DeliverRun, 1},
		"steered by the user":  {domain.TriggerUser, domain.DeliverSteer, 1},
		"user that interrupts": {domain.TriggerUser, domain.DeliverInterrupt, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				runs := wakes{woken: make(chan domain.SessionRun, 1)}
				s := &Service{Config{Store: queues{applied: c.applied}, Runs: runs, Logger: slog.New(slog.DiscardHandler)}}
				_, err := s.Send(t.Context(), domain.Caller{}, domain.Send{SessionID: "s", Trigger: c.trigger})
				require.NoError(t, err)
				synctest.Wait()
				require.Len(t, runs.woken, c.wakes)
			})
		})
	}
}
