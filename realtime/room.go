package realtime

import (
	"context"
	"encoding/json"
	"sync"

	"everloop/domain"
)

// room is a session with a subscription in this process.
type room struct {
	from uint64                     // the hub's position when the room was created
	subs map[*Subscription]struct{} // guarded by the hub
	last uint64                     // newest event since from, 0 for none; guarded by the hub

	mu      sync.Mutex
	settled bool
	base    uint64 // the session's last event at or before from
}

func newRoom(from uint64) *room {
	return &room{from: from, subs: map[*Subscription]struct{}{}}
}

// settle determines the event before the first one that the room sees. Subscriptions are
// blocked until then.
func (r *room) settle(ctx context.Context, log Log, sessionID domain.SessionID) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.settled {
		return nil
	}

	base, err := log.LastUpTo(ctx, sessionID, r.from)
	if err != nil {
		return err
	}

	r.base, r.settled = base, true

	return nil
}

// add passes an event to all subscriptions; the caller holds the hub's lock.
func (r *room) add(seq uint64, size int, load func(context.Context) (domain.Event, error)) {
	it := &item{room: r, seq: seq, prev: r.last, size: size, load: load}

	r.last = seq
	for s := range r.subs {
		s.enqueue(it)
	}
}

// item is an event shared by subscriptions: it is parsed, fetched and encoded once, by the
// first that needs it.
type item struct {
	room *room
	seq  uint64
	prev uint64 // 0: the first event of the room, after its base
	size int
	load func(context.Context) (domain.Event, error)

	mu     sync.Mutex
	loaded bool
	event  domain.LoggedEvent
	wire   json.RawMessage
	turn   *turnFields
}

// get loads the event. A failure is not cached.
func (it *item) get(ctx context.Context) (domain.LoggedEvent, error) {
	it.mu.Lock()
	defer it.mu.Unlock()

	if it.loaded {
		return it.event, nil
	}

	e, err := it.load(ctx)
	if err != nil {
		return domain.LoggedEvent{}, err
	}

	prev := it.prev
	if prev == 0 {
		it.room.mu.Lock()
		prev = it.room.base
		it.room.mu.Unlock()
	}

	it.event = domain.LoggedEvent{Event: e, Seq: it.seq, PrevSeq: prev}
	it.loaded, it.load = true, nil

	return it.event, nil
}

// encoded returns the event as clients receive it; get must have succeeded before.
func (it *item) encoded() json.RawMessage {
	it.mu.Lock()
	defer it.mu.Unlock()

	if it.wire == nil {
		it.wire = it.event.Wire()
	}

	return it.wire
}

// ready returns an item for an event that was read from the log.
func ready(e domain.LoggedEvent) *item {
	return &item{seq: e.Seq, size: len(e.Data), loaded: true, event: e}
}
