package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

const (
	// tailHeartbeat is the interval of heartbeats for an idle tail; after three missed ones the
	// consumer is replaced.
	tailHeartbeat = time.Second
	tailBuffer    = 8192
)

// Load decodes an event of the tail. It can fetch a large body, so it must not be called on the
// tail's own goroutine.
type Load = func(ctx context.Context) (domain.Event, error)

// Tail follows all sessions from now on, until ctx is cancelled. started is called once with the
// start position; each is called for every later event, in order, exactly once, despite
// reconnects and new consumers. Events are decoded only by load; size is in bytes. Neither
// function may block.
//
// The consumer is a plain ephemeral one, and is recreated after the last processed event when its
// sequence has a gap, its heartbeats stop, the connection was lost or its generation of the log
// was closed.
func (l *Log) Tail(
	ctx context.Context,
	started func(seq uint64),
	each func(sessionID domain.SessionID, seq uint64, size int, load Load),
) error {
	if err := l.ensure(ctx); err != nil {
		return err
	}

	stream, err := l.js.Stream(ctx, l.newest().name)
	if err != nil {
		return domain.Unavailablef("event log", err)
	}

	t := &tail{log: l, each: each, position: stream.CachedInfo().State.LastSeq}
	l.reach(stream.CachedInfo())
	started(t.position)

	changes := l.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer l.nc.RemoveStatusListener(changes)

	for try := 0; ; try++ {
		before := t.position

		err := t.follow(ctx, changes)
		if ctx.Err() != nil {
			return ctx.Err()
		}

		if l.nc.IsClosed() {
			return domain.Unavailablef("event log", nats.ErrConnectionClosed)
		}

		if t.position != before {
			try = 0
		}

		l.cfg.Logger.Warn("event tail restarted", "position", t.position, "error", err.Error())

		if errors.Is(err, errReconnected) || errors.Is(err, errClosedGeneration) {
			continue
		}

		if !pause(ctx, try) {
			return ctx.Err()
		}
	}
}

// tail is the state of one Tail call.
type tail struct {
	log      *Log
	each     func(sessionID domain.SessionID, seq uint64, size int, load Load)
	position uint64 // of the stream: last event passed to each
}

var (
	errReconnected      = errors.New("the connection was lost and is back")
	errClosedGeneration = errors.New("the stream is closed: a new generation of the log goes on")
	errSilent           = errors.New("the consumer sends no heartbeat")
	errSkipped          = errors.New("the consumer skipped a message")
)

// follow processes the events of closed generations after the position, and then runs one
// consumer of the open generation until it fails.
func (t *tail) follow(ctx context.Context, changes <-chan nats.Status) error {
	l := t.log
	if err := l.ensure(ctx); err != nil {
		return err
	}

	for _, g := range l.known() {
		if err := t.catchUp(ctx, g); err != nil {
			return err
		}
	}

	open := l.newest()
	inbox := l.nc.NewInbox()
	messages := make(chan *nats.Msg, tailBuffer)

	sub, err := l.nc.ChanSubscribe(inbox, messages)
	if err != nil {
		return err
	}

	defer func() { _ = sub.Unsubscribe() }()

	name := "tail_" + domain.NewID()

	makeCtx, cancel := context.WithTimeout(ctx, directTimeout)

	defer cancel()

	_, err = l.js.CreatePushConsumer(makeCtx, open.name, jetstream.ConsumerConfig{
		Name:              name,
		Description:       "a process that follows all sessions",
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       max(t.position+1, open.base),
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		MemoryStorage:     true,
		Replicas:          1,
		FlowControl:       true,
		IdleHeartbeat:     tailHeartbeat,
		InactiveThreshold: 10 * tailHeartbeat,
	})
	if err != nil {
		return err
	}
	defer func() {
		drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()

		_ = l.js.DeleteConsumer(drop, open.name, name) // it would end by itself
	}()

	return t.receive(ctx, messages, changes)
}

// catchUp processes the events of a closed generation after the position.
func (t *tail) catchUp(ctx context.Context, g generation) error {
	if g.open() {
		return nil
	}

	c := cursor{log: t.log, subject: t.log.cfg.SubjectPrefix + ".>", after: t.position, upTo: g.last, left: []generation{g}}
	for {
		m, err := c.peek(ctx)
		if err != nil || m == nil {
			return err
		}

		c.take()
		t.deliver(m.subject, m.body, m.seq)
	}
}

// receive processes messages until the consumer is no longer reliable.
func (t *tail) receive(ctx context.Context, messages <-chan *nats.Msg, changes <-chan nats.Status) error {
	silence := time.NewTicker(3 * tailHeartbeat)
	defer silence.Stop()

	heard := true

	var delivered uint64 // by this consumer

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case status, ok := <-changes:
			if !ok || status == nats.CLOSED {
				return nats.ErrConnectionClosed
			}

			return errReconnected
		case <-silence.C:
			if !heard {
				return errSilent
			}

			heard = false
		case msg := <-messages:
			heard = true

			if len(msg.Header) > 0 && len(msg.Data) == 0 && msg.Header.Get("Status") == "100" {
				if err := t.control(msg, delivered); err != nil {
					return err
				}

				continue
			}

			streamSeq, consumerSeq, err := sequences(msg.Reply)
			if err != nil {
				return err
			}

			if consumerSeq != delivered+1 {
				return errSkipped
			}

			delivered = consumerSeq

			if !strings.HasPrefix(msg.Subject, t.log.cfg.SubjectPrefix+".") {
				return errClosedGeneration
			}

			if streamSeq > t.position {
				t.deliver(msg.Subject, msg.Data, streamSeq)
			}
		}
	}
}

func (t *tail) deliver(subject string, body []byte, seq uint64) {
	session := t.log.sessionOf(subject)
	t.position = seq
	t.log.raise(seq)
	t.each(domain.SessionID(session), seq, len(body), func(ctx context.Context) (domain.Event, error) {
		return t.log.decode(ctx, domain.SessionID(session), body)
	})
}

// control responds to flow control and checks heartbeats, which contain the last sent sequence.
func (t *tail) control(msg *nats.Msg, delivered uint64) error {
	if msg.Reply != "" {
		return msg.Respond(nil)
	}

	if stalled := msg.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		return t.log.nc.Publish(stalled, nil)
	}

	if last := msg.Header.Get("Nats-Last-Consumer"); last != "" {
		if n, err := strconv.ParseUint(last, 10, 64); err == nil && n != delivered {
			return errSkipped
		}
	}

	return nil
}

// sequences reads a delivery's numbers from its reply subject:
// $JS.ACK.<stream>.<consumer>.<tries>.<stream seq>.<consumer seq>.<time>.<pending>, with a domain
// and an account after ACK and a random token at the end for newer or clustered servers.
func sequences(reply string) (stream, consumer uint64, err error) {
	parts := strings.Split(reply, ".")
	if len(parts) < 9 || parts[0] != "$JS" || parts[1] != "ACK" {
		return 0, 0, fmt.Errorf("a message of the event log came with the reply subject %q", reply)
	}

	at := 5
	if len(parts) > 9 {
		at = 7
	}

	if stream, err = strconv.ParseUint(parts[at], 10, 64); err != nil {
		return 0, 0, err
	}

	consumer, err = strconv.ParseUint(parts[at+1], 10, 64)

	return stream, consumer, err
}
