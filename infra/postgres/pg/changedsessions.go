package pg

import (
	"maps"
	"slices"
	"sync"
)

// changedSessions are the sessions of transactions that were committed.
type changedSessions struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

func (c *changedSessions) add(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.ids == nil {
		c.ids = map[string]struct{}{}
	}

	for _, id := range ids {
		c.ids[id] = struct{}{}
	}
}

// ChangedSessions returns the sessions whose events this process has committed since the call
// before, in the order of their ids.
func (o *Outbox) ChangedSessions() []string {
	o.changed.mu.Lock()
	defer o.changed.mu.Unlock()

	ids := slices.Sorted(maps.Keys(o.changed.ids))
	o.changed.ids = nil

	return ids
}

// KeepChanged has the next ChangedSessions return the sessions, too.
func (o *Outbox) KeepChanged(sessions []string) { o.changed.add(sessions...) }
