package egress

import (
	"context"
	"sync"
	"time"

	"everloop/domain"
)

// policyFor is how long a policy counts once it was read.
const policyFor = 2 * time.Second

// rules keep the policy of a command, so that a rule which is added or removed while
// it runs counts soon, and not every connection reads them.
type rules struct {
	read Policy

	mu   sync.Mutex
	last domain.NetworkPolicy
	at   time.Time
}

func (r *rules) policy(ctx context.Context) (domain.NetworkPolicy, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if !r.at.IsZero() && time.Since(r.at) < policyFor {
		return r.last, nil
	}

	policy, err := r.read(ctx)
	if err != nil {
		return domain.NetworkPolicy{}, err
	}

	r.last, r.at = policy, time.Now()

	return policy, nil
}
