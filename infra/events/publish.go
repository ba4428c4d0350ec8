package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"everloop/internal/retry"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

const (
	// ackTimeout is the timeout of one attempt to publish.
	ackTimeout = 2 * time.Second
	// publishTimeout is the maximum duration of Publish for a context without a deadline.
	publishTimeout = 30 * time.Second
	// maxPause is the maximum delay between attempts.
	maxPause = time.Second
	// deltaPause is how long deltas are rejected after a missing acknowledgement.
	deltaPause = 5 * time.Second
)

// errUnavailable rejects a delta without an attempt.
var errUnavailable = errors.New("a delta was not acknowledged a moment ago")

// Publish appends an event and returns its sequence after the acknowledgement. An event with an
// ID is stored once within the duplicates window; for an event without one, each retry searches
// the log first. A caller that needs order must publish its events sequentially.
func (l *Log) Publish(ctx context.Context, e domain.Event) (uint64, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()

	msg, err := l.message(ctx, e)
	if err != nil {
		return 0, err
	}

	if e.ID != "" {
		msg.Header = nats.Header{jetstream.MsgIDHeader: {e.ID}}
	}

	before := l.high.Load()

	for try := 0; ; try++ {
		seq, err := l.publishTry(ctx, e, msg, before, try)
		if err == nil {
			return seq, nil
		}

		if err := l.backOff(ctx, e, try, err); err != nil {
			return 0, err
		}
	}
}

// publishTry runs one attempt of Publish. before is the log's highest sequence before the first
// attempt.
func (l *Log) publishTry(ctx context.Context, e domain.Event, msg *nats.Msg, before uint64, try int) (uint64, error) {
	if err := l.settle(ctx); err != nil {
		return 0, err
	}

	switch {
	case e.ID == "" && try > 0:
		return l.repeatOnce(ctx, msg, before, sameBody(msg.Data))
	case e.ID != "" && l.olderThanGeneration(e.At): // a closed generation may contain it
		return l.repeatOnce(ctx, msg, 0, sameID(e.ID))
	default:
		return l.publishOnce(ctx, msg, before)
	}
}

// errUnsettled reports that the generations were not checked since the last reconnect.
var errUnsettled = errors.New("failed to check the event log after a reconnect")

// settle checks the generations after a reconnect, before the next publish: a generation from
// before a restart of NATS would assign sequences a second time. It fails without a connection,
// because the client library would buffer messages and send them before the check.
func (l *Log) settle(ctx context.Context) error {
	if !l.nc.IsConnected() {
		return nats.ErrDisconnected
	}

	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()

	if _, err := l.generations(ctx); err != nil {
		return errors.Join(errUnsettled, err)
	}

	return nil
}

// PublishDelta makes one attempt to append an event that is not state, such as a delta of a
// model's answer. After an error it is unknown whether the event is in the log; Repeat resolves
// that. For some seconds after an error it rejects all events, so that an unavailable log does
// not delay tools that stream their output.
//
// It sets no Nats-Msg-Id, which the server would store in memory for the duplicates window: there
// are too many deltas. So a delta must not arrive late, after another process has repeated it:
// without a connection it is rejected, because the client would buffer it and send it after a
// reconnect.
func (l *Log) PublishDelta(ctx context.Context, e domain.Event) (uint64, error) {
	if time.Now().UnixNano() < l.away.Load() {
		return 0, domain.Unavailablef("event log", errUnavailable)
	}

	msg, err := l.message(ctx, e)
	if err != nil {
		return 0, err
	}

	var seq uint64
	if err = l.settle(ctx); err == nil {
		seq, err = l.publishOnce(ctx, msg, l.high.Load())
	}

	if err != nil {
		l.away.Store(time.Now().Add(deltaPause).UnixNano())
		return 0, domain.Unavailablef("event log", fmt.Errorf("event %s was not acknowledged: %w", e.Name, err))
	}

	return seq, nil
}

// Repeat publishes an event with an ID unless the session's log contains it after the given
// sequence, and returns its sequence in both cases. It searches for the ID and then publishes on
// the condition that the subject has no newer message, so that an earlier attempt in flight is
// not duplicated.
func (l *Log) Repeat(ctx context.Context, e domain.Event, after uint64) (uint64, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()

	msg, err := l.message(ctx, e)
	if err != nil {
		return 0, err
	}
	// Another process may consider the event recent and publish it concurrently, with
	// deduplication by id only.
	msg.Header = nats.Header{jetstream.MsgIDHeader: {e.ID}}
	for try := 0; ; try++ {
		seq, err := l.repeatOnce(ctx, msg, after, sameID(e.ID))
		if err == nil {
			return seq, nil
		}

		if err := l.backOff(ctx, e, try, err); err != nil {
			return 0, err
		}
	}
}

// withDeadline adds a deadline to a context without one.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}

	return context.WithTimeout(ctx, publishTimeout)
}

// message returns the event as it is published, without headers.
func (l *Log) message(ctx context.Context, e domain.Event) (*nats.Msg, error) {
	if err := token("session_id", e.SessionID); err != nil {
		return nil, err
	}

	if e.At.IsZero() {
		e.At = time.Now()
	}

	body, err := l.encode(ctx, e)
	if err != nil {
		return nil, err
	}

	return &nats.Msg{Subject: l.subjectOf(e), Data: body}, nil
}

// backOff waits before the next attempt, or returns the error that ends the attempts.
func (l *Log) backOff(ctx context.Context, e domain.Event, try int, cause error) error {
	if errors.Is(cause, errOvertaken) && ctx.Err() == nil {
		return nil // another publisher was faster, which is not an error
	}

	if !retryable(cause) {
		return domain.Unavailablef("event log", cause)
	}

	if !pause(ctx, try) {
		return domain.Unavailablef("event log", fmt.Errorf("event %s was not acknowledged: %w: %w", e.Name, ctx.Err(), cause))
	}

	return nil
}

// errRegressed reports that the log assigned a sequence a second time.
var errRegressed = errors.New("the event log has lost its tail")

// publishOnce makes one attempt. before is the log's highest sequence when the event was created:
// a lower sequence means that the log lost its tail.
func (l *Log) publishOnce(ctx context.Context, msg *nats.Msg, before uint64) (uint64, error) {
	tryCtx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()

	reconnects := l.reconnects.Load()

	ack, err := l.js.PublishMsg(tryCtx, msg)
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, nats.ErrNoResponders):
		return 0, errors.Join(err, l.ensure(ctx))
	case err != nil:
		return 0, err
	case ack.Duplicate:
		// The stream's leader has found the id, even if a replica lags.
		l.raise(ack.Sequence)
		return ack.Sequence, nil
	}

	if ack.Sequence > before {
		if ack.Stream != l.newest().name {
			// Another process created a generation, which readers of this event need.
			if err := l.ensure(tryCtx); err != nil {
				return 0, err
			}
		}

		if l.nc.Stats().Reconnects != reconnects { // NATS may have restarted before it accepted the event
			if err := l.ensure(tryCtx); err != nil {
				return 0, errors.Join(errUnsettled, err)
			}

			if ack.Stream != l.newest().name {
				l.withdraw(tryCtx, ack)
				return 0, errRegressed
			}
		}

		l.raise(ack.Sequence)
		l.away.Store(0)

		return ack.Sequence, nil
	}

	l.withdraw(tryCtx, ack)

	return 0, errors.Join(errRegressed, l.ensure(ctx))
}

// withdraw deletes this process's event from a stream that has lost its end: it is published
// again in the next one.
func (l *Log) withdraw(ctx context.Context, ack *jetstream.PubAck) {
	stream, err := l.js.Stream(ctx, ack.Stream)
	if err == nil {
		err = stream.DeleteMsg(ctx, ack.Sequence)
	}

	if err != nil {
		l.cfg.Logger.Warn("failed to remove an event from a stream that lost its tail", "stream", ack.Stream, "error", err)
	}
}

// errOvertaken reports that the subject has a newer message than the expected one.
var errOvertaken = errors.New("another event came to the subject in between")

// repeatOnce searches for a message after a sequence, and publishes it if it is missing and its
// subject has no newer message.
func (l *Log) repeatOnce(ctx context.Context, msg *nats.Msg, after uint64, same func(message) bool) (seq uint64, err error) {
	last, err := l.lastOf(ctx, math.MaxUint64, msg.Subject)
	if err != nil {
		return 0, err
	}

	err = l.scan(ctx, msg.Subject, after, last, func(m message) error {
		if same(m) {
			seq = m.seq
			return errStop
		}

		return nil
	})
	if err != nil || seq > 0 {
		return seq, err
	}

	if last < l.newest().base {
		last = 0 // the open generation has no message of the subject
	}

	next := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: nats.Header{}}
	maps.Copy(next.Header, msg.Header)
	next.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))

	seq, err = l.publishOnce(ctx, next, l.high.Load())
	if overtaken(err) {
		return 0, errOvertaken
	}

	return seq, err
}

// overtaken reports whether the log rejected a publish because of its condition.
func overtaken(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)

	return ok && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// sameBody matches an event without an ID by its body, which contains its time.
func sameBody(body []byte) func(message) bool {
	return func(m message) bool { return bytes.Equal(m.body, body) }
}

func sameID(eventID string) func(message) bool {
	return func(m message) bool {
		id, err := idOf(m.body)
		return err == nil && id == eventID
	}
}

func retryable(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, errRegressed) || errors.Is(err, errUnsettled) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, errBroken) || inProcess(err)
}

// duplicateInProcess is the server's error code for an id that another process publishes
// concurrently.
const duplicateInProcess = 10158

func inProcess(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == duplicateInProcess
}

// pause waits before the next attempt: 20 ms, doubled each time, at most maxPause.
func pause(ctx context.Context, try int) bool {
	return retry.Wait(ctx, min(maxPause, 20*time.Millisecond<<min(try, 10)))
}
