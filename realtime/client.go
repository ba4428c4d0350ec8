package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"everloop/domain"
)

// client is one connection and its subscriptions.
type client struct {
	conn   Conn
	caller domain.Caller
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	drained chan struct{} // closed when the connection's buffer has space again
	pumps   map[domain.SessionID]*pump
}

// pump sends one session's events to one connection.
type pump struct {
	sub    *Subscription
	cancel context.CancelFunc
	done   chan struct{}
}

func newClient(conn Conn, caller domain.Caller) *client {
	c := &client{conn: conn, caller: caller, drained: make(chan struct{}), pumps: map[domain.SessionID]*pump{}}
	c.ctx, c.cancel = context.WithCancel(conn.Context())

	return c
}

// drain wakes the pumps that wait for space.
func (c *client) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()

	close(c.drained)
	c.drained = make(chan struct{})
}

func (c *client) room() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.drained
}

// end stops every pump, and waits until none emits.
func (c *client) end() {
	c.cancel()

	for _, id := range c.sessions() {
		c.unfollow(id)
	}
}

func (c *client) sessions() []domain.SessionID {
	c.mu.Lock()
	defer c.mu.Unlock()

	ids := make([]domain.SessionID, 0, len(c.pumps))
	for id := range c.pumps {
		ids = append(ids, id)
	}

	return ids
}

func (c *client) follows() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return len(c.pumps)
}

// follow starts to send a subscription's events.
func (c *client) follow(sub *Subscription) {
	ctx, cancel := context.WithCancel(c.ctx)
	p := &pump{sub: sub, cancel: cancel, done: make(chan struct{})}

	c.mu.Lock()
	c.pumps[sub.sessionID] = p
	c.mu.Unlock()

	go func() {
		defer close(p.done)
		defer sub.Close()
		defer cancel()

		c.run(ctx, sub)
		c.mu.Lock()
		defer c.mu.Unlock()

		if c.pumps[sub.sessionID] == p {
			delete(c.pumps, sub.sessionID)
		}
	}()
}

// unfollow ends a session's pump, and waits until it has stopped emitting; false when there was
// none.
func (c *client) unfollow(sessionID domain.SessionID) bool {
	c.mu.Lock()
	p := c.pumps[sessionID]
	delete(c.pumps, sessionID)
	c.mu.Unlock()

	if p == nil {
		return false
	}

	p.cancel()
	<-p.done

	return true
}

// run sends events until the subscription ends. A slow connection blocks it, so that its
// bounded queue overflows and the client catches up by session:resync.
func (c *client) run(ctx context.Context, sub *Subscription) {
	for {
		it, err := sub.next(ctx)
		if errors.Is(err, ErrResync) {
			data, err := json.Marshal(domain.SessionResync{
				SessionID: sub.sessionID, Seq: sub.Position(), TS: time.Now().UTC().Format(time.RFC3339Nano),
			})
			if err == nil {
				c.deliver(ctx, domain.EventSessionResync, data)
			}

			return
		}

		if err != nil {
			return
		}

		if !c.deliver(ctx, it.event.Name, it.encoded()) {
			return
		}
	}
}

// deliver emits an event when there is space; false when ctx ended before.
func (c *client) deliver(ctx context.Context, name string, data json.RawMessage) bool {
	for {
		room := c.room()

		if ctx.Err() != nil {
			return false
		}

		if c.conn.Emit(name, data) {
			return true
		}

		select {
		case <-ctx.Done():
			return false
		case <-room:
		}
	}
}

// emit sends an event outside a session's stream; a full buffer drops it.
func (c *client) emit(name string, v any) {
	if data, err := json.Marshal(v); err == nil {
		c.conn.Emit(name, data)
	}
}
