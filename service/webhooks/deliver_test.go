package webhooks

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/webhook"
)

// queue returns deliveries, some of endpoints that hang.
type queue struct {
	mu       sync.Mutex
	due      []webhook.DueDelivery
	asked    []int
	recorded []string
	released []string
}

func (q *queue) ClaimDeliveries(_ context.Context, limit int) ([]webhook.DueDelivery, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.asked = append(q.asked, limit)
	n := min(limit, len(q.due))
	claimed := q.due[:n]
	q.due = q.due[n:]

	return claimed, nil
}

func (q *queue) RecordAttempt(_ context.Context, due webhook.DueDelivery, _ webhook.Answer) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.recorded = append(q.recorded, due.ID)

	return "", nil
}

func (q *queue) ReleaseDelivery(_ context.Context, due webhook.DueDelivery) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.released = append(q.released, due.ID)

	return nil
}

type plainBox struct{}

func (plainBox) Seal(_ string, value []byte) ([]byte, error)  { return value, nil }
func (plainBox) Open(_ string, sealed []byte) ([]byte, error) { return sealed, nil }

// slowly answers at once, but for the URL hang, which never does.
type slowly struct{}

func (slowly) Send(ctx context.Context, url, _, _ string, _ []string) webhook.Answer {
	if url != "hang" {
		return webhook.Answer{StatusCode: 200}
	}

	<-ctx.Done()

	return webhook.Answer{Error: "cut off"}
}

func TestDeliverer_Run_hangingEndpointsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		for i := range 40 {
			q.due = append(q.due, webhook.DueDelivery{ID: "hanging" + strconv.Itoa(i), URL: "hang"})
		}

		for i := range 100 {
			q.due = append(q.due, webhook.DueDelivery{ID: strconv.Itoa(i), URL: "quick"})
		}

		d, err := NewDeliverer(q, plainBox{}, slowly{}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())

		done := make(chan struct{})
		go func() {
			defer close(done)

			d.Run(ctx)
		}()

		time.Sleep(5 * time.Second) //nolint:forbidigo // in a synctest bubble
		synctest.Wait()
		q.mu.Lock()
		require.Len(t, q.recorded, 100)
		require.Equal(t, maxConcurrent, q.asked[0])
		require.Equal(t, maxConcurrent-40, q.asked[len(q.asked)-1], "it asks for what it has room for")
		q.mu.Unlock()

		cancel()
		<-done
		require.Len(t, q.released, 40, "what was cut off is released")
		require.Len(t, q.recorded, 100)
	})
}
