package realtime

import (
	"context"
	"errors"
	"sync"
	"time"

	"everloop/internal/retry"

	"everloop/domain"
)

// ErrResync reports that a subscription has overflowed its buffer, or that its log could not be
// read: it returns no more events, and the client must subscribe again with after_seq set to
// [Subscription.Position].
var ErrResync = errors.New("the subscription fell behind: subscribe again with after_seq")

// ErrClosed reports that the subscription was closed.
var ErrClosed = errors.New("the subscription is closed")

const (
	batchEvents = 256
	batchBytes  = 1 << 20
	// loadTries bounds the attempts to read an event or a piece of the log, with growing pauses
	// of 8 s in total, before a subscription fails.
	loadTries = 6
)

// Subscription is one follower of one session. [Subscription.Next] returns the events after
// Snapshot().Seq in order, without gaps or duplicates. It needs no goroutine, and a hub never
// waits for it.
type Subscription struct {
	hub       *Hub
	room      *room
	sessionID domain.SessionID
	joined    uint64 // the hub's position when it joined
	snapshot  Snapshot

	// Only for the goroutine that calls Next.
	cursor uint64 // events at or before it are skipped
	batch  []*item
	ended  endedTurns
	given  uint64 // the last event that Next returned; initially, the one before the subscription
	gap    bool   // an event after given was omitted
	took   uint64 // the newest taken event; 0: none
	left   uint64 // the position of the client at the end of the previous generation

	mu       sync.Mutex
	catching bool   // events up to upTo are read from the log
	upTo     uint64 // later events are in the queue
	queue    []*item
	bytes    int
	failed   bool
	closed   bool
	position uint64
	wake     chan struct{}
}

// Snapshot returns the state of the session at the position from which the subscription
// continues.
func (s *Subscription) Snapshot() Snapshot { return s.snapshot }

// Position returns the after_seq of a client that subscribes again.
func (s *Subscription) Position() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.position
}

// Close ends the subscription; a waiting Next returns ErrClosed. It is idempotent.
func (s *Subscription) Close() {
	s.mu.Lock()
	s.closed = true
	s.queue, s.bytes = nil, 0
	s.mu.Unlock()
	s.signal()
	s.hub.leave(s)
}

// Next waits for the next event. Its error is ErrResync, ErrClosed or ctx's. Only one goroutine
// can call it.
func (s *Subscription) Next(ctx context.Context) (domain.LoggedEvent, error) {
	it, err := s.next(ctx)
	if err != nil {
		return domain.LoggedEvent{}, err
	}

	return it.event, nil
}

// next is Next for the shared item of an event.
func (s *Subscription) next(ctx context.Context) (*item, error) {
	for {
		it, wait, err := s.pick(ctx)
		switch {
		case err != nil:
			return nil, err
		case it != nil && it.seq <= s.cursor:
			continue // it was in the snapshot, or read from the log
		case it != nil:
			if err := s.fetch(ctx, it); err != nil {
				return nil, err
			}

			if s.took < s.hub.cfg.Log.Base(it.seq) {
				s.left = max(s.left, s.took)
			}

			s.cursor, s.took = it.seq, it.seq
			s.mu.Lock()
			s.position = it.seq
			s.mu.Unlock()

			if s.had(it) || s.ended.late(it) {
				s.gap = true
				continue
			}

			if s.gap {
				it = it.behind(s.given)
			}

			s.given, s.gap = it.seq, false

			return it, nil
		case wait:
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-s.wake:
			}
		}
	}
}

// had reports whether the client received an event before the log lost it.
func (s *Subscription) had(it *item) bool {
	return it.event.LostSeq > 0 && it.event.LostSeq <= s.left && s.left < s.hub.cfg.Log.Base(it.seq)
}

// pick takes the next item from the log or the queue. wait reports that there is none yet.
func (s *Subscription) pick(ctx context.Context) (it *item, wait bool, err error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, false, ErrClosed
	case s.failed:
		s.mu.Unlock()
		return nil, false, ErrResync
	}

	catching, upTo := s.catching, s.upTo
	if !catching {
		defer s.mu.Unlock()

		if len(s.queue) == 0 {
			s.queue = nil
			return nil, true, nil
		}

		it = s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.bytes -= it.size

		return it, false, nil
	}
	s.mu.Unlock()

	if len(s.batch) == 0 {
		if err := s.read(ctx, upTo); err != nil {
			return nil, false, err
		}
	}

	if len(s.batch) > 0 {
		it, s.batch = s.batch[0], s.batch[1:]
		return it, false, nil
	}

	s.cursor = max(s.cursor, upTo)
	s.mu.Lock()
	defer s.mu.Unlock()

	s.catching = s.upTo > upTo

	return nil, false, nil
}

// errEnough ends a read of the log at the end of a batch.
var errEnough = errors.New("enough")

// read fills the batch from the log.
func (s *Subscription) read(ctx context.Context, upTo uint64) error {
	if s.cursor >= upTo {
		return nil
	}

	return s.retry(ctx, func() error {
		s.batch = nil
		size := 0

		err := s.hub.cfg.Log.Read(ctx, s.sessionID, s.cursor, upTo, func(e domain.LoggedEvent) error {
			s.batch = append(s.batch, ready(e))
			if size += len(e.Data); size >= batchBytes || len(s.batch) >= batchEvents {
				return errEnough
			}

			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}

		return err
	})
}

// fetch loads an item's event.
func (s *Subscription) fetch(ctx context.Context, it *item) error {
	return s.retry(ctx, func() error {
		_, err := it.get(ctx)
		return err
	})
}

// retry retries calls while a dependency is temporarily unavailable.
func (s *Subscription) retry(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return nil
		}

		if ctx.Err() != nil {
			return ctx.Err()
		}

		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()

		if closed {
			return ErrClosed
		}

		if n+1 == loadTries {
			s.hub.cfg.Logger.Error("failed to read the events of a subscription", "session_id", s.sessionID, "error", err)
			s.fail()

			return ErrResync
		}

		if !retry.Wait(ctx, 250*time.Millisecond<<n) {
			return ctx.Err()
		}
	}
}

// enqueue adds a live event; it never blocks. While the subscription still reads the log,
// events that do not fit into the queue are read from the log.
func (s *Subscription) enqueue(it *item) {
	s.mu.Lock()
	switch {
	case s.closed || s.failed:
	case len(s.queue) < s.hub.cfg.QueueEvents && (s.bytes+it.size <= s.hub.cfg.QueueBytes || len(s.queue) == 0):
		s.queue = append(s.queue, it)
		s.bytes += it.size
	case s.catching:
		s.queue, s.bytes = nil, 0
		s.upTo = it.seq
	default:
		s.failed = true
		s.queue, s.bytes = nil, 0
	}
	s.mu.Unlock()
	s.signal()
}

// fail ends the subscription with ErrResync.
func (s *Subscription) fail() {
	s.mu.Lock()
	s.failed = true
	s.queue, s.bytes = nil, 0
	s.mu.Unlock()
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
