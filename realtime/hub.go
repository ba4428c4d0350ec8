package realtime

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"everloop/internal/retry"

	"everloop/domain"
)

// HubConfig configures a hub. Zero values are replaced by the defaults.
type HubConfig struct {
	Log   Log
	State State
	// QueueEvents and QueueBytes bound the queue of one slow subscription; default 1,024 events
	// and 8 MiB.
	QueueEvents int
	QueueBytes  int
	// FlushWait is how long a subscription waits until the hub has reached the position of the
	// stored records; default 1 s.
	FlushWait time.Duration
	Logger    *slog.Logger
}

// Hub follows the event log once for the whole process and passes each event to
// the subscriptions of its session. Events of sessions without a subscription are
// skipped. Create it with [NewHub] and start [Hub.Run].
type Hub struct {
	cfg     HubConfig
	running chan struct{} // closed once the position is known

	mu       sync.Mutex
	started  bool
	position uint64 // all events up to it were passed to the rooms
	rooms    map[domain.SessionID]*room
	waiters  []waiter
}

// waiter is notified when the hub reaches a position.
type waiter struct {
	seq     uint64
	reached chan struct{}
}

// NewHub returns a new hub.
func NewHub(cfg HubConfig) *Hub {
	if cfg.QueueEvents == 0 {
		cfg.QueueEvents = 1024
	}

	if cfg.QueueBytes == 0 {
		cfg.QueueBytes = 8 << 20
	}

	if cfg.FlushWait == 0 {
		cfg.FlushWait = time.Second
	}

	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	return &Hub{cfg: cfg, running: make(chan struct{}), rooms: map[domain.SessionID]*room{}}
}

// Run follows the log until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	for {
		err := h.cfg.Log.Tail(ctx, h.begin, h.each)
		if ctx.Err() != nil {
			return ctx.Err()
		}

		h.cfg.Logger.Error("failed to follow the event log", "error", err)

		if !retry.Wait(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// begin is called with the position at which the tail starts. After a restart the events in
// between were missed, so every subscription must catch up.
func (h *Hub) begin(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if !h.started {
		h.started = true
		close(h.running)
	} else if seq > h.position {
		for _, r := range h.rooms {
			for s := range r.subs {
				s.fail()
			}
		}
	}

	h.advance(max(h.position, seq))
}

// each passes one event of the tail to its room.
func (h *Hub) each(sessionID domain.SessionID, seq uint64, size int, load func(context.Context) (domain.Event, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if r := h.rooms[sessionID]; r != nil {
		r.add(seq, size, load)
	}

	h.advance(seq)
}

// advance moves the position; the caller holds h.mu.
func (h *Hub) advance(seq uint64) {
	h.position = seq
	if len(h.waiters) == 0 {
		return
	}

	waiting := h.waiters[:0]
	for _, w := range h.waiters {
		if w.seq <= seq {
			close(w.reached)
		} else {
			waiting = append(waiting, w)
		}
	}

	clear(h.waiters[len(waiting):])
	h.waiters = waiting
}

// at returns the hub's position.
func (h *Hub) at() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.position
}

// await waits until the hub has reached seq, and returns its position. It waits FlushWait at
// most: a log that lost its tail may never reach seq, and then the events that the database
// flushed beyond it are read from the log or omitted.
func (h *Hub) await(ctx context.Context, seq uint64) (uint64, error) {
	h.mu.Lock()
	if h.position >= seq {
		defer h.mu.Unlock()
		return h.position, nil
	}

	w := waiter{seq: seq, reached: make(chan struct{})}
	h.waiters = append(h.waiters, w)
	h.mu.Unlock()

	timer := time.NewTimer(h.cfg.FlushWait)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-timer.C:
	case <-w.reached:
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	for i := range h.waiters {
		if h.waiters[i].reached == w.reached {
			h.waiters = append(h.waiters[:i], h.waiters[i+1:]...)
			break
		}
	}

	return h.position, nil
}

// join adds a subscription to its room, where it buffers from the hub's position on.
func (h *Hub) join(ctx context.Context, sessionID domain.SessionID) (*Subscription, error) {
	select {
	case <-ctx.Done():
		return nil, domain.Unavailablef("event log", ctx.Err())
	case <-h.running:
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	r := h.rooms[sessionID]
	if r == nil {
		r = newRoom(h.position)
		h.rooms[sessionID] = r
	}

	s := &Subscription{
		hub: h, room: r, sessionID: sessionID, joined: h.position,
		catching: true, upTo: h.position, wake: make(chan struct{}, 1),
	}
	r.subs[s] = struct{}{}

	return s, nil
}

// leave removes a subscription from its room.
func (h *Hub) leave(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()

	delete(s.room.subs, s)

	if len(s.room.subs) == 0 && h.rooms[s.sessionID] == s.room {
		delete(h.rooms, s.sessionID)
	}
}

// HubStats are a hub's gauges.
type HubStats struct {
	Rooms         int
	Subscriptions int
	Position      uint64
}

// Stats returns the gauges.
func (h *Hub) Stats() HubStats {
	h.mu.Lock()
	defer h.mu.Unlock()

	stats := HubStats{Rooms: len(h.rooms), Position: h.position}
	for _, r := range h.rooms {
		stats.Subscriptions += len(r.subs)
	}

	return stats
}
