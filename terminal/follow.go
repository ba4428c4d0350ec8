package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// follower reads a session's events over as many connections as needed, each event once and
// in order (by seq, prev_seq and after_seq).
type follower struct {
	client    *Client
	session   string
	patience  time.Duration
	lost      func(error) // called when a connection is lost or cannot be opened
	connected func()      // called when the stream continues
	gap       func()      // called when missed events are no longer stored

	stream    *stream
	last      uint64 // seq of the newest event; 0: none
	requested uint64 // last, when a gap was requested
	// anchor reports the first event to return after the loss of a connection that received no
	// event: the next connection returns all stored events.
	anchor   func(*Event) bool
	skipping bool
}

// start opens the first connection, for later events only or for all stored ones. The caller
// reports its failure.
func (f *follower) start(ctx context.Context, all bool) (err error) {
	var after *uint64
	if all {
		after = new(uint64)
	}
	f.stream, err = f.client.open(ctx, f.session, after)
	return err
}

// started reports whether the position is known, so that no event is missed while no
// connection is open.
func (f *follower) started() bool { return f.stream != nil || f.last > 0 }

func (f *follower) close() {
	if f.stream != nil {
		f.stream.close()
		f.stream = nil
	}
}

// next returns the next event. It fails when ctx ends, when the service rejects the request,
// or when the service is unavailable for too long.
func (f *follower) next(ctx context.Context) (Event, error) {
	for {
		if f.stream == nil {
			if err := f.reconnect(ctx); err != nil {
				return Event{}, err
			}
		}

		event, err := f.stream.next(ctx)

		switch {
		case ctx.Err() != nil:
			return Event{}, context.Cause(ctx)
		case err != nil:
			f.close()
			f.lost(err)
		case event.Name == eventResync: // the client is too slow, or the service shuts down
			f.close()
		case event.Name == eventError && event.Seq == 0:
			f.close()

			var cause failure

			_ = json.Unmarshal(event.Error, &cause) // other forms are not retryable
			if !cause.Retryable {
				return Event{}, &Problem{Code: cause.Code, Detail: cause.Message}
			}

			f.lost(errors.New(cause.Message))
		case event.Seq <= f.last: // a duplicate
		case f.missing(&event):
			f.close()
		default:
			f.last = event.Seq
			if f.skipping && !f.anchor(&event) {
				continue
			}

			f.skipping = false

			return event, nil
		}
	}
}

// missing reports whether events before this one are missing. The follower requests them
// once; if they are no longer stored, it continues without them.
func (f *follower) missing(event *Event) bool {
	if f.last == 0 || event.PrevSeq <= f.last {
		return false
	}
	if f.requested == f.last {
		f.gap()
		return false
	}
	f.requested = f.last
	return true
}

func (f *follower) reconnect(ctx context.Context) error {
	after := f.last

	err := retry(ctx, f.patience, f.lost, func(ctx context.Context) (err error) {
		f.stream, err = f.client.open(ctx, f.session, &after)
		return err
	})
	if err != nil {
		f.stream = nil
		return err
	}

	f.skipping = f.last == 0 && f.anchor != nil
	f.connected()

	return nil
}

// retry calls try with growing pauses until it succeeds, fails permanently, ctx ends or
// patience has ended. It reports each failure that it retries.
func retry(ctx context.Context, patience time.Duration, report func(error), try func(context.Context) error) error {
	const firstPause, maxPause = 100 * time.Millisecond, 3 * time.Second

	started := time.Now()

	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		err := try(ctx)
		if err == nil {
			return nil
		}

		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if !transient(err) || time.Since(started) > patience {
			return err
		}

		report(err)

		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
