package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

const (
	// ackTimeout is how long one try to publish waits for the log.
	ackTimeout = 2 * time.Second
	// publishTimeout is how long Publish tries when the caller set no deadline.
	publishTimeout = 30 * time.Second
	// maxPause is the longest pause between two tries.
	maxPause = time.Second
)

// Publish appends an event and gives its sequence once the log has it. An event
// with an ID is kept once however often it is published within the duplicates
// window. What is tried again after a time-out is first looked for in the log.
// The caller keeps the order of its own events by publishing one after the other.
func (l *Log) Publish(ctx context.Context, e domain.Event) (uint64, error) {
	if err := token("session_id", e.SessionID); err != nil {
		return 0, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, publishTimeout)
		defer cancel()
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	body, err := l.encode(ctx, e)
	if err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: l.subjectOf(e), Data: body}
	if e.ID != "" {
		msg.Header = nats.Header{jetstream.MsgIDHeader: {e.ID}}
	}
	before := l.high.Load()
	for try := 0; ; try++ {
		seq, err := l.publishOnce(ctx, msg, before)
		if err == nil {
			l.raise(seq)
			return seq, nil
		}
		if !retryable(err) {
			return 0, domain.Unavailablef("event log", err)
		}
		if err := pause(ctx, try); err != nil {
			return 0, domain.Unavailablef("event log", fmt.Errorf("event %s was not acknowledged: %w", e.Name, err))
		}
		if seq, found := l.landed(ctx, e, body, before); found {
			l.raise(seq)
			return seq, nil
		}
	}
}

// errRegressed says that the log gave a number that it had given before.
var errRegressed = errors.New("the event log has lost its tail")

// publishOnce makes one try. before is what the log had reached when the event
// was made: a lower number means that the log lost its tail.
func (l *Log) publishOnce(ctx context.Context, msg *nats.Msg, before uint64) (uint64, error) {
	tryCtx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	ack, err := l.js.PublishMsg(tryCtx, msg)
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, nats.ErrNoResponders):
		return 0, errors.Join(err, l.ensure(ctx))
	case err != nil:
		return 0, err
	case ack.Duplicate:
		if l.holds(tryCtx, ack.Sequence) {
			return ack.Sequence, nil
		}
		// The log remembers the id of an event that it no longer has.
		again := &nats.Msg{Subject: msg.Subject, Data: msg.Data}
		if ack, err = l.js.PublishMsg(tryCtx, again); err != nil {
			return 0, err
		}
	}
	if ack.Sequence > before {
		return ack.Sequence, nil
	}
	return 0, errors.Join(errRegressed, l.ensure(ctx))
}

// holds reports whether the log has a message of that sequence.
func (l *Log) holds(ctx context.Context, seq uint64) bool {
	got, err := l.direct(ctx, directRequest{Seq: seq})
	return err != nil || len(got.messages) == 1
}

// landed looks for an event whose acknowledgement was lost.
func (l *Log) landed(ctx context.Context, e domain.Event, body []byte, after uint64) (seq uint64, found bool) {
	if e.ID != "" {
		return 0, false // the log itself recognises the repeat
	}
	err := l.scan(ctx, l.subjectOf(e), after, math.MaxUint64, func(m message) error {
		if bytes.Equal(m.body, body) {
			seq, found = m.seq, true
			return errStop
		}
		return nil
	})
	return seq, found && err == nil
}

func retryable(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, errRegressed) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, jetstream.ErrStreamNotFound)
}

// pause waits before the next try: 20 ms doubled each time, at most maxPause.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(min(maxPause, 20*time.Millisecond<<min(try, 10)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
