package auth

import (
	"context"
	"log/slog"
	"sync"

	"everloop/domain"
)

// Changes sends changes of rights to the holders of open connections, in this process and in
// others, so that connections that lost their right end immediately. A lost message only delays
// this: every open connection is checked periodically.
type Changes struct {
	send   func(context.Context, domain.RightsChange) error
	logger *slog.Logger

	mu       sync.RWMutex
	watchers []func(context.Context, domain.RightsChange)
}

// NewChanges returns a new Changes; send sends a change to the other processes, nil if there
// are none.
func NewChanges(send func(context.Context, domain.RightsChange) error, logger *slog.Logger) *Changes {
	return &Changes{send: send, logger: logger}
}

// Watch registers fn to be called for every change, in the order of the calls to Watch.
func (c *Changes) Watch(fn func(context.Context, domain.RightsChange)) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.watchers = append(c.watchers, fn)
}

// Announce reports a change made in this process to every process.
func (c *Changes) Announce(ctx context.Context, change domain.RightsChange) {
	c.Receive(ctx, change)

	if c.send == nil {
		return
	}

	if err := c.send(ctx, change); err != nil {
		c.logger.Warn("failed to announce a change of rights, other processes notice it at their next check", "error", err)
	}
}

// Receive reports a change that was made in another process. It can also receive this process's
// own changes: watchers read the store.
func (c *Changes) Receive(ctx context.Context, change domain.RightsChange) {
	c.mu.RLock()
	defer c.mu.RUnlock()

	for _, watcher := range c.watchers {
		watcher(ctx, change)
	}
}
