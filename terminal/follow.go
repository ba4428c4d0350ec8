package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

const (
	firstPause = 100 * time.Millisecond
	longPause  = 3 * time.Second
	// defaultPatience is how long a lost service is waited for.
	defaultPatience = 10 * time.Minute
)

// follower reads a session's events over as many connections as it takes, each
// event once and in order (by seq, prev_seq and after_seq).
type follower struct {
	client   *Client
	session  string
	patience time.Duration
	lost     func(error) // called once for each loss, when it is noticed
	found    func()      // called when the stream goes on again
	gap      func()      // called when events are no longer kept

	stream *stream
	last   uint64 // seq of the newest event seen; 0: none yet
	asked  uint64 // the position that a gap was last asked about
	// anchor finds the first event that counts, for a connection that was lost
	// before any event came: everything that is kept is then read again.
	anchor   func(*Event) bool
	skipping bool
}

// start opens the first connection, for what happens from now on; with all, for
// everything that is kept. The caller reports its failure.
func (f *follower) start(ctx context.Context, all bool) (err error) {
	var after *uint64
	if all {
		after = new(uint64)
	}

	f.stream, err = f.client.open(ctx, f.session, after)

	return err
}

// begun reports whether the follower knows where it stands, so that nothing is
// missed even while no connection is open.
func (f *follower) begun() bool { return f.stream != nil || f.last > 0 }

func (f *follower) close() {
	if f.stream != nil {
		f.stream.close()
		f.stream = nil
	}
}

// next gives the next event. It returns an error when ctx ends, when the service
// refuses, or when it stays away for too long.
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
		case event.Name == eventResync: // too slow, or the service is going down
			f.close()
		case event.Name == eventError && event.Seq == 0:
			f.close()

			var cause failure

			_ = json.Unmarshal(event.Error, &cause) // another form is no reason to come again
			if !cause.Retryable {
				return Event{}, &Problem{Code: cause.Code, Detail: cause.Message}
			}

			f.lost(errors.New(cause.Message))
		case event.Seq <= f.last:
			// seen before
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

// missing reports whether events before this one did not come. They are asked for
// once; when they are no longer kept, the stream goes on without them.
func (f *follower) missing(event *Event) bool {
	if f.last == 0 || event.PrevSeq <= f.last {
		return false
	}

	if f.asked == f.last {
		f.gap()
		return false
	}

	f.asked = f.last

	return true
}

func (f *follower) reconnect(ctx context.Context) error {
	began, pause := time.Now(), firstPause

	for {
		after := f.last

		stream, err := f.client.open(ctx, f.session, &after)
		if err == nil {
			f.stream, f.skipping = stream, f.last == 0 && f.anchor != nil
			f.found()

			return nil
		}

		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if !passing(err) || time.Since(began) > f.patience {
			return err
		}

		f.lost(err)

		if err := wait(ctx, pause); err != nil {
			return err
		}

		pause = min(2*pause, longPause)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
