package egress

import (
	"context"
	"sync"
	"time"

	"everloop/domain"
)

// policyFor is how long a policy counts once it was read: half of the two seconds in which
// docs/network.md promises that a change takes effect.
const policyFor = time.Second

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

// watch closes the connections that the policy no longer allows, until the command ends.
// Those of a pool are closed like those of a tunnel. A policy that cannot be read closes
// none: it allows no new connection in the meantime.
func (c *Command) watch() {
	ticker := time.NewTicker(policyFor)
	defer ticker.Stop()

	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}

		upstream := c.upstream()
		if len(upstream) == 0 {
			continue
		}

		policy, err := c.rules.policy(c.ctx)
		if err != nil {
			continue
		}

		for _, t := range upstream {
			if policy.Refusal(t.host, t.port) != "" {
				_ = t.Close()
			}
		}
	}
}

// upstream lists the open connections to the network.
func (c *Command) upstream() (all []*tracked) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for t := range c.open {
		if t.host != "" {
			all = append(all, t)
		}
	}

	return all
}
