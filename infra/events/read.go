package events

import (
	"context"
	"errors"
	"math"
	"time"

	"everloop/domain"
)

// errStop ends a scan early.
var errStop = errors.New("stop")

// Read calls fn for the kept events of a session with after < seq <= upTo, in
// order, with PrevSeq filled in. upTo may lie beyond the end
// (math.MaxUint64: everything that the log has now). An error of fn ends it and is returned.
func (l *Log) Read(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error {
	var prev uint64

	first := true

	return l.merge(ctx, sessionID, after, upTo, func(m message) error {
		if first && after > 0 {
			before, err := l.lastOf(ctx, min(after, m.seq-1), l.flow(sessionID), l.edge(sessionID))
			if err != nil {
				return err
			}

			prev = before
		}

		first = false

		e, err := l.decode(ctx, sessionID, m.body)
		if err != nil {
			return err
		}

		logged := domain.LoggedEvent{Event: e, Seq: m.seq, PrevSeq: prev}
		prev = m.seq

		return fn(logged)
	})
}

// ReadEdges is Read for turn:start and turn:end only; PrevSeq stays 0.
func (l *Log) ReadEdges(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error {
	if err := token("session_id", sessionID); err != nil {
		return err
	}

	return l.scan(ctx, l.edge(sessionID), after, upTo, func(m message) error {
		e, err := l.decode(ctx, sessionID, m.body)
		if err != nil {
			return err
		}

		return fn(domain.LoggedEvent{Event: e, Seq: m.seq})
	})
}

// Last is the sequence of a session's newest event, 0 when none is kept.
func (l *Log) Last(ctx context.Context, sessionID domain.SessionID) (uint64, error) {
	return l.LastUpTo(ctx, sessionID, math.MaxUint64)
}

// LastUpTo is the sequence of a session's newest kept event at or before upTo,
// 0 when there is none.
func (l *Log) LastUpTo(ctx context.Context, sessionID domain.SessionID, upTo uint64) (uint64, error) {
	if err := token("session_id", sessionID); err != nil {
		return 0, err
	}

	return l.lastOf(ctx, upTo, l.flow(sessionID), l.edge(sessionID))
}

// LastAt is when a session's newest kept event was stored, by the clock of the event log;
// zero when none is kept.
func (l *Log) LastAt(ctx context.Context, sessionID domain.SessionID) (last time.Time, err error) {
	if err := token("session_id", sessionID); err != nil {
		return last, err
	}

	list, err := l.generations(ctx)
	if err != nil {
		return last, err
	}

	for i := len(list) - 1; i >= 0 && last.IsZero(); i-- {
		answer, err := l.direct(ctx, list[i], directRequest{MultiLast: []string{l.flow(sessionID), l.edge(sessionID)}})
		if err != nil {
			return last, err
		}

		for _, m := range answer.messages {
			if m.at.After(last) {
				last = m.at
			}
		}
	}

	return last, nil
}

// lastOf is the newest entry of any of the subjects at or before upTo.
func (l *Log) lastOf(ctx context.Context, upTo uint64, subjects ...string) (uint64, error) {
	list, err := l.generations(ctx)
	if err != nil {
		return 0, err
	}

	for i := len(list) - 1; i >= 0; i-- {
		if list[i].base > upTo {
			continue
		}

		last, err := l.lastIn(ctx, list[i], upTo, subjects...)
		if err != nil || last > 0 {
			return last, err
		}
	}

	return 0, nil
}

// lastIn is lastOf for one generation. The server finds nothing for a limit beyond
// the end of the stream, so such a limit is left out, and set only when the stream
// has grown past it since.
func (l *Log) lastIn(ctx context.Context, g generation, upTo uint64, subjects ...string) (uint64, error) {
	if upTo == 0 {
		return 0, nil
	}

	request := directRequest{MultiLast: subjects}
	if upTo <= min(l.high.Load(), g.last) {
		request.UpToSeq = upTo
	}

	answer, err := l.direct(ctx, g, request)

	var last uint64
	for _, m := range answer.messages {
		last = max(last, m.seq)
	}

	if err == nil && last > upTo {
		l.raise(last)
		return l.lastIn(ctx, g, upTo, subjects...)
	}

	return last, err
}

// Oldest is the sequence of a session's oldest kept event, 0 when none is kept.
func (l *Log) Oldest(ctx context.Context, sessionID domain.SessionID) (uint64, error) {
	if err := token("session_id", sessionID); err != nil {
		return 0, err
	}

	var oldest uint64

	list, err := l.generations(ctx)
	if err != nil {
		return 0, err
	}

	for _, g := range list {
		for _, subject := range []string{l.flow(sessionID), l.edge(sessionID)} {
			answer, err := l.direct(ctx, g, directRequest{Seq: 1, NextFor: subject})
			if err != nil {
				return 0, err
			}

			if len(answer.messages) > 0 && (oldest == 0 || answer.messages[0].seq < oldest) {
				oldest = answer.messages[0].seq
			}
		}

		if oldest > 0 {
			break
		}
	}

	return oldest, nil
}

// Count is how many events of a session with a sequence above after are kept.
func (l *Log) Count(ctx context.Context, sessionID domain.SessionID, after uint64) (int, error) {
	if err := token("session_id", sessionID); err != nil {
		return 0, err
	}

	total := 0

	list, err := l.generations(ctx)
	if err != nil {
		return 0, err
	}

	for _, g := range list {
		if after >= g.last {
			continue
		}

		for _, subject := range []string{l.flow(sessionID), l.edge(sessionID)} {
			// MaxBytes 1 ends the batch behind its first message.
			answer, err := l.direct(ctx, g, directRequest{Seq: after + 1, NextFor: subject, Batch: 2, MaxBytes: 1})
			if err != nil {
				return 0, err
			}

			total += len(answer.messages) + int(answer.pending) //nolint:gosec // a count of kept messages
		}
	}

	return total, nil
}

// scan calls fn for the entries of one subject with after < seq <= upTo.
func (l *Log) scan(ctx context.Context, subject string, after, upTo uint64, fn func(message) error) error {
	c, err := l.walk(ctx, subject, after, upTo)
	if err != nil {
		return err
	}

	for {
		m, err := c.peek(ctx)
		if err != nil || m == nil {
			return err
		}

		c.take()

		if err := fn(*m); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// merge calls fn for the entries of both subjects of a session, in order.
func (l *Log) merge(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(message) error) error {
	if err := token("session_id", sessionID); err != nil {
		return err
	}

	flow, edge := l.flow(sessionID), l.edge(sessionID)
	if upTo > l.high.Load() {
		// The end must be one for both subjects, else an entry could be passed over.
		last, err := l.lastOf(ctx, math.MaxUint64, flow, edge)
		if err != nil {
			return err
		}

		upTo = min(upTo, last)
	}

	a, err := l.walk(ctx, flow, after, upTo)
	if err != nil {
		return err
	}

	b := cursor{log: l, subject: edge, after: after, upTo: upTo, left: a.left}
	for {
		m, err := a.peek(ctx)
		if err != nil {
			return err
		}

		n, err := b.peek(ctx)
		if err != nil {
			return err
		}

		switch {
		case m == nil && n == nil:
			return nil
		case m == nil || (n != nil && n.seq < m.seq):
			m = n

			b.take()
		default:
			a.take()
		}

		if err := fn(*m); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
