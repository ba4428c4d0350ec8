package realtime

import (
	"context"
	"time"

	"github.com/google/uuid"

	"everloop/domain"
)

// Snapshot is the answer to session:subscribe (docs/events.md): the state of the session at the
// position from which its events continue.
type Snapshot struct {
	SessionID        domain.SessionID       `json:"session_id"`
	Status           domain.SessionStatus   `json:"status"`
	WaitingReason    domain.WaitingReason   `json:"waiting_reason"`
	Seq              uint64                 `json:"seq"` // the session's last event before the following ones, 0 for none
	ChatID           domain.ChatID          `json:"chat_id,omitempty"`
	Replayed         int                    `json:"replayed"` // number of following events that are stored ones
	Truncated        bool                   `json:"truncated"`
	OpenTurns        []domain.Turn          `json:"open_turns"`
	PendingQuestions []domain.Question      `json:"pending_questions"`
	Queue            []domain.QueuedMessage `json:"queue"`
	LastEnd          *domain.LastEnd        `json:"last_end"`
}

// Subscribe follows a session: from now on when after is nil, else from the events after that
// sequence. The caller must have checked the permission.
//
// It first joins the room, which buffers, then reads the state from the database and the log up
// to a position B, and continues after B; the open turns are the turns open at B, regardless of
// later events. The state and the stream must meet at one point, or text is lost or duplicated.
func (h *Hub) Subscribe(ctx context.Context, sessionID domain.SessionID, after *uint64) (*Subscription, error) {
	return h.subscribe(ctx, sessionID, after, true)
}

// Follow is Subscribe for a client that only needs events: the snapshot omits open turns, which
// require reading the log.
func (h *Hub) Follow(ctx context.Context, sessionID domain.SessionID, after *uint64) (*Subscription, error) {
	return h.subscribe(ctx, sessionID, after, false)
}

func (h *Hub) subscribe(ctx context.Context, sessionID domain.SessionID, after *uint64, openTurns bool) (*Subscription, error) {
	s, err := h.join(ctx, sessionID)
	if err != nil {
		return nil, err
	}

	if err := h.prepare(ctx, s, after, openTurns); err != nil {
		s.Close()
		return nil, err
	}

	return s, nil
}

// prepare creates the snapshot and sets the start of the subscription.
func (h *Hub) prepare(ctx context.Context, s *Subscription, after *uint64, openTurns bool) error {
	log := h.cfg.Log
	if err := s.room.settle(ctx, log, s.sessionID); err != nil {
		return err
	}

	before := h.at()

	live, err := h.cfg.State.Live(ctx, s.sessionID)
	if err != nil {
		return err
	}

	var from place
	if after == nil {
		from, err = h.atEnd(ctx, s.sessionID, live)
	} else {
		from, err = h.atSeq(ctx, s.sessionID, *after)
	}

	if err != nil {
		return err
	}

	turns := []domain.Turn{}
	if openTurns {
		if turns, err = h.openTurns(ctx, s.sessionID, max(from.seq, from.turnsAt), live); err != nil {
			return err
		}
	}

	// The state must include an event at or before the position, because the event does not
	// follow.
	if after == nil && from.last > before {
		if live, err = h.cfg.State.Live(ctx, s.sessionID); err != nil {
			return err
		}
	}

	s.snapshot = Snapshot{
		SessionID: s.sessionID, Status: live.Status, WaitingReason: live.WaitingReason, ChatID: live.ChatID,
		Seq: from.last, Replayed: from.behind, Truncated: from.truncated,
		OpenTurns: turns, PendingQuestions: nonNil(live.Questions), Queue: nonNil(live.Queue),
		LastEnd: live.LastEnd,
	}
	s.cursor, s.given = from.seq, from.last

	s.left = from.seq
	if after != nil {
		s.left = *after // it may have seen events that the log has since lost
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.position = from.seq
	if s.upTo == s.joined {
		s.upTo = min(s.upTo, from.end) // there is nothing to read after the session's end
	}

	return nil
}

// place is a position in a session's events.
type place struct {
	seq       uint64 // events above it are streamed
	last      uint64 // the session's last stored event at or before it
	end       uint64 // at or above every event of the log at the time of joining
	behind    int    // stored events above it
	truncated bool   // some above it may be removed
	turnsAt   uint64 // position of the open turns: seq, or before the first stored event above it
}

// atEnd returns the hub's position once it has reached the position of the stored records.
func (h *Hub) atEnd(ctx context.Context, sessionID domain.SessionID, live domain.LiveState) (p place, err error) {
	var flushed uint64
	for _, turn := range live.OpenTurns {
		flushed = max(flushed, turn.FlushedSeq)
	}

	if p.seq, err = h.await(ctx, flushed); err != nil {
		return p, err
	}

	p.last, err = h.cfg.Log.LastUpTo(ctx, sessionID, p.seq)
	p.end = p.seq

	return p, err
}

// atSeq returns the position after the event that a client has seen. A position beyond the
// session's end is its end.
func (h *Hub) atSeq(ctx context.Context, sessionID domain.SessionID, after uint64) (p place, err error) {
	end, err := h.cfg.Log.LastUpTo(ctx, sessionID, ^uint64(0))
	if err != nil {
		return p, err
	}

	p.end, p.seq = end, min(after, end)

	first, since, err := h.cfg.Log.Kept(ctx, p.seq)
	if err != nil {
		return p, err
	}

	if p.truncated = p.seq+1 < first && !madeAfter(sessionID, since); p.truncated {
		// A generation that lost its end may have stored some events in between.
		kept, err := h.cfg.Log.LastUpTo(ctx, sessionID, first-1)
		if err != nil {
			return p, err
		}

		if kept <= p.seq {
			p.turnsAt = first - 1
		}
	}

	p.truncated = p.truncated || h.cfg.Log.Missed(after)

	if p.last, err = h.cfg.Log.LastUpTo(ctx, sessionID, p.seq); err != nil {
		return p, err
	}

	if end > p.seq {
		p.behind, err = h.cfg.Log.Count(ctx, sessionID, p.seq)
	}

	return p, err
}

// madeAfter reports whether the session was created after a time, so that none of its events
// can be missing from a log that reaches back to it. The time is part of the id (UUIDv7); false
// for other ids.
func madeAfter(sessionID domain.SessionID, t time.Time) bool {
	id, err := uuid.Parse(string(sessionID))
	if err != nil || id.Version() != 7 {
		return false
	}

	seconds, nanos := id.Time().UnixTime()

	return !time.Unix(seconds, nanos).Before(t.Truncate(time.Millisecond))
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}

	return list
}
