package egress

import (
	"context"
	"sync"
	"time"

	"everloop/domain"
)

// policyFor is the maximum age of a cached policy: half of the two seconds that docs/network.md
// specifies for a change.
const policyFor = time.Second

// rules caches the policy of a command, so that changes take effect soon and not every connection
// reads it.
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

// watch closes the connections that the policy no longer allows, until the command ends, both
// pooled connections and tunnels. An unreadable policy closes none; no new connection is allowed
// in the meantime.
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

// upstream returns the open connections to the network.
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
