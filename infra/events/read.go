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

// Read calls fn for the stored events of a session with after < seq <= upTo, in order, with
// PrevSeq set. upTo can exceed the last sequence (math.MaxUint64: all current events). An error
// of fn ends the read and is returned.
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

// Last returns the sequence of a session's newest event, 0: none.
func (l *Log) Last(ctx context.Context, sessionID domain.SessionID) (uint64, error) {
	return l.LastUpTo(ctx, sessionID, math.MaxUint64)
}

// LastUpTo returns the sequence of a session's newest stored event at or before upTo, 0: none.
func (l *Log) LastUpTo(ctx context.Context, sessionID domain.SessionID, upTo uint64) (uint64, error) {
	if err := token("session_id", sessionID); err != nil {
		return 0, err
	}

	return l.lastOf(ctx, upTo, l.flow(sessionID), l.edge(sessionID))
}

// LastAt returns when a session's newest stored event was stored, by the clock of the event log;
// zero: none.
func (l *Log) LastAt(ctx context.Context, sessionID domain.SessionID) (last time.Time, err error) {
	if err := token("session_id", sessionID); err != nil {
		return last, err
	}

	list, err := l.generations(ctx)
	if err != nil {
		return last, err
	}

	for i := len(list) - 1; i >= 0 && last.IsZero(); i-- {
		for _, subject := range []string{l.flow(sessionID), l.edge(sessionID)} {
			m, err := l.leader(ctx, list[i], leaderRequest{LastFor: subject})
			if err != nil {
				return last, err
			}

			if m != nil && m.at.After(last) {
				last = m.at
			}
		}
	}

	return last, nil
}

// lastOf returns the newest entry of any of the subjects at or before upTo.
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

// lastIn is lastOf for one generation.
func (l *Log) lastIn(ctx context.Context, g generation, upTo uint64, subjects ...string) (last uint64, err error) {
	if upTo == 0 {
		return 0, nil
	}

	var later []string // subjects with entries after upTo

	for _, subject := range subjects {
		m, err := l.leader(ctx, g, leaderRequest{LastFor: subject})
		if err != nil {
			return 0, err
		}

		switch {
		case m == nil:
		case m.seq > upTo:
			later = append(later, subject)
		default:
			last = max(last, m.seq)
		}
	}

	before, err := l.lastBefore(ctx, g, upTo, later)

	return max(last, before), err
}

// lastBefore is lastIn for subjects with entries after upTo. A replica that has not reached upTo
// finds nothing: then lastBefore asks the leader.
func (l *Log) lastBefore(ctx context.Context, g generation, upTo uint64, subjects []string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()

	for try := 0; len(subjects) > 0; try++ {
		answer, err := l.direct(ctx, g, directRequest{MultiLast: subjects, UpToSeq: upTo})
		if err != nil {
			return 0, err
		}

		if n := len(answer.messages); n > 0 {
			return answer.messages[n-1].seq, nil
		}

		var earlier []string

		for _, subject := range subjects {
			m, err := l.leader(ctx, g, leaderRequest{Seq: 1, NextFor: subject})
			if err != nil {
				return 0, err
			}

			if m != nil && m.seq <= upTo {
				earlier = append(earlier, subject)
			}
		}

		if subjects = earlier; len(subjects) == 0 {
			break
		}

		if !pause(ctx, try) {
			return 0, domain.Unavailablef("event log", errLags)
		}
	}

	return 0, nil
}

// errLags reports that a replica did not catch up in time.
var errLags = errors.New("a replica of the event log lags")

// Count returns the number of stored events of a session with a sequence above after.
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
			n, err := l.countIn(ctx, g, subject, after)
			if err != nil {
				return 0, err
			}

			total += n
		}
	}

	return total, nil
}

// countIn counts the entries of a subject after a sequence: a replica that has the last entry has
// all of them.
func (l *Log) countIn(ctx context.Context, g generation, subject string, after uint64) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()

	for try := 0; ; try++ {
		last, err := l.leader(ctx, g, leaderRequest{LastFor: subject})
		if err != nil || last == nil || last.seq <= after {
			return 0, err
		}

		found, err := l.direct(ctx, g, directRequest{Seq: last.seq})
		if err != nil {
			return 0, err
		}

		if len(found.messages) == 1 {
			// MaxBytes 1 ends the batch after its first message.
			answer, err := l.direct(ctx, g, directRequest{Seq: after + 1, NextFor: subject, Batch: 2, MaxBytes: 1})
			if err != nil {
				return 0, err
			}

			return len(answer.messages) + int(answer.pending), nil //nolint:gosec // a count of kept messages
		}

		if !pause(ctx, try) {
			return 0, domain.Unavailablef("event log", errLags)
		}
	}
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
		// Both subjects must be read up to the same end, else an entry could be skipped.
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
