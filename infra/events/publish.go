package events

import (
	"bytes"
	"context"
	"errors"
	"everloop/internal/retry"
	"fmt"
	"maps"
	"math"
	"strconv"
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
	// deltaPause is how long deltas are refused after one was not acknowledged.
	deltaPause = 5 * time.Second
)

// errUnavailable refuses a delta without a try.
var errUnavailable = errors.New("a delta was not acknowledged a moment ago")

// Publish appends an event and gives its sequence once the log has it. An event
// with an ID is kept once however often it is published within the duplicates
// window; one without is looked for before each retry. The caller keeps the order
// of its own events by publishing one after the other.
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

// publishTry makes one of the tries of Publish. before is the sequence that the log had
// reached before the first one.
func (l *Log) publishTry(ctx context.Context, e domain.Event, msg *nats.Msg, before uint64, try int) (uint64, error) {
	if err := l.settle(ctx); err != nil {
		return 0, err
	}

	switch {
	case e.ID == "" && try > 0:
		return l.repeatOnce(ctx, msg, before, sameBody(msg.Data))
	case e.ID != "" && l.olderThanGeneration(e.At): // the closed ones may have it
		return l.repeatOnce(ctx, msg, 0, sameID(e.ID))
	default:
		return l.publishOnce(ctx, msg, before)
	}
}

// errUnsettled reports that the generations were not checked since the last reconnect.
var errUnsettled = errors.New("failed to check the event log after a reconnect")

// settle checks the generations after a reconnect, before the next publish: one from
// before a restart of NATS would assign numbers a second time. It fails without a
// connection, because the client library keeps messages and sends them before the check.
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

// PublishDelta makes one try to append an event that is not state, such as a piece
// of a model's answer. After an error the event may be in the log or not; Repeat
// finds out. For some seconds after an error it refuses all that come, so that a log
// that is away holds up no tool that shows its output.
//
// It has no Nats-Msg-Id, which the server would keep in memory for the duplicates
// window: there are too many deltas. So a delta must not arrive late, when another
// process has repeated it: without a connection it is refused, as the client would
// keep it and send it after the next connect.
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

// Repeat publishes an event with an ID that the session's log may hold behind the
// sequence after already, and gives its sequence either way. It looks for the ID
// first and then publishes on the condition that nothing came to the subject since:
// an earlier try that is still on its way is not doubled.
func (l *Log) Repeat(ctx context.Context, e domain.Event, after uint64) (uint64, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()

	msg, err := l.message(ctx, e)
	if err != nil {
		return 0, err
	}
	// The id is for another process that takes the event for younger and publishes it
	// by its id alone at the same time.
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

// withDeadline gives ctx a deadline when it has none.
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

// backOff waits before the next try, or returns the error that ends the tries.
func (l *Log) backOff(ctx context.Context, e domain.Event, try int, cause error) error {
	if errors.Is(cause, errOvertaken) && ctx.Err() == nil {
		return nil // another publisher was faster: nothing is wrong
	}

	if !retryable(cause) {
		return domain.Unavailablef("event log", cause)
	}

	if !pause(ctx, try) {
		return domain.Unavailablef("event log", fmt.Errorf("event %s was not acknowledged: %w: %w", e.Name, ctx.Err(), cause))
	}

	return nil
}

// errRegressed reports that the log gave a number that it had given before.
var errRegressed = errors.New("the event log has lost its tail")

// publishOnce makes one try. before is what the log had reached when the event
// was made: a lower number means that the log lost its tail.
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
		// The stream's leader knows the id, whatever a replica has.
		l.raise(ack.Sequence)
		return ack.Sequence, nil
	}

	if ack.Sequence > before {
		if ack.Stream != l.newest().name {
			// Another process made a generation. Readers of this event must know it.
			if err := l.ensure(tryCtx); err != nil {
				return 0, err
			}
		}

		if l.nc.Stats().Reconnects != reconnects { // NATS may have restarted before it took the event
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

// withdraw removes the event of this process that a stream took which had lost its
// end: it is published again behind that.
func (l *Log) withdraw(ctx context.Context, ack *jetstream.PubAck) {
	stream, err := l.js.Stream(ctx, ack.Stream)
	if err == nil {
		err = stream.DeleteMsg(ctx, ack.Sequence)
	}

	if err != nil {
		l.cfg.Logger.Warn("failed to remove an event from a stream that lost its tail", "stream", ack.Stream, "error", err)
	}
}

// errOvertaken reports that the subject has a newer message than the condition of a
// publish named.
var errOvertaken = errors.New("another event came to the subject in between")

// repeatOnce looks for a message behind a sequence, and publishes it when it is not
// there and nothing came to its subject since.
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
		last = 0 // the generation that takes events has none of the subject
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

// overtaken reports that the log refused a publish for its condition.
func overtaken(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)

	return ok && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// sameBody recognises an event without an ID. Its time is in its body.
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

// duplicateInProcess is the server's code for an id that another process publishes in
// the same moment.
const duplicateInProcess = 10158

func inProcess(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == duplicateInProcess
}

// pause waits before the next try: 20 ms doubled each time, at most maxPause. It is false
// when ctx ended first.
func pause(ctx context.Context, try int) bool {
	return retry.Wait(ctx, min(maxPause, 20*time.Millisecond<<min(try, 10)))
}
