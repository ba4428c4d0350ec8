package githost

import (
	"context"
	"errors"
	"net/http"
	"time"

	"everloop/companions/edge"
	"everloop/internal/limit"
)

// maxWaiting bounds the waiting requests.
const maxWaiting = 256

// queue bounds how many git processes run concurrently. One key has at most three quarters
// of the slots.
type queue struct{ *limit.Queue }

func newQueue(slots int, wait time.Duration) queue {
	return queue{limit.NewQueue(limit.QueueConfig{Slots: slots, Share: max(1, slots*3/4), Waiting: maxWaiting, Wait: wait})}
}

// acquire returns with a slot, which release frees, or with an error for the client.
func (q queue) acquire(ctx context.Context, key string) (release func(), err error) {
	release, err = q.Acquire(ctx, key)
	if errors.Is(err, limit.ErrFull) || errors.Is(err, limit.ErrWaited) {
		err = edge.Refuse(http.StatusTooManyRequests, "rate_limited", "too many git requests at once: try again")
	}

	return release, err
}
