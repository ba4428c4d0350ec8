// Package stream publishes what a model says as patches of its turn, in order, and keeps it
// in the database in the meantime. It knows neither who calls the model nor what becomes of the
// answer.
package stream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"everloop/domain"
	"everloop/internal/retry"
)

// Deltas are joined before they are published: the first goes out at once, the
// others after 20 ms or with 2 KB, whatever comes first. What is published is
// kept in the database about once a second.
const (
	publishEvery = 20 * time.Millisecond
	publishBytes = 2 << 10
	flushEvery   = time.Second
	flushTimeout = 5 * time.Second
	// maxDelta bounds one delta, in bytes, when the event log was slow.
	maxDelta = 32 << 10
	// finishWait is how long Finish waits for the event log; what it does not
	// acknowledge in time is published with the end of the turn.
	finishWait = 500 * time.Millisecond
)

// deltaBackoff is how the publishing of a delta is retried.
var deltaBackoff = retry.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second}

// Log takes the deltas of a stream, which are not state.
type Log interface {
	// PublishDelta makes one try. After an error the log may have the event or not.
	PublishDelta(ctx context.Context, e domain.Event) (seq uint64, err error)
	// Repeat publishes an event that the log may have behind the sequence after,
	// and returns its sequence either way.
	Repeat(ctx context.Context, e domain.Event, after uint64) (seq uint64, err error)
}

// Turns stores the text of turns. Writes are fenced by the attempt that opening returned.
type Turns interface {
	FlushTurn(ctx context.Context, entryID domain.TurnID, attempt int, blocks []domain.Block, seq uint64) error
	// Published returns when the event log has the session's events that were
	// committed in this process before.
	Published(ctx context.Context, sessionID domain.SessionID) error
}

// Stream publishes what a model says, in order, as patches of one turn. A
// goroutine of its own publishes: reading the model's answer never waits for the
// event log, and a log that is away fails no model call.
type Stream struct {
	ctx    context.Context
	cancel context.CancelFunc
	turn   domain.OpenedTurn
	log    Log
	turns  Turns
	broke  func(error) // reports to the model call that it is fenced

	more    chan struct{} // something must be published; full: already said
	closing chan struct{} // nothing more is added
	ended   chan struct{} // the goroutine has ended; nil before it was started

	mu      sync.Mutex
	blocks  []*openBlock
	first   int           // bytes of the first piece, which goes out alone
	waiting int           // bytes that are not published
	sent    textPlace     // up to which the text is published
	deltas  int           // published, for their ids
	last    uint64        // sequence of the newest one
	unsure  *domain.Event // being published, or not acknowledged
	failing bool          // the newest try to publish failed

	unsureTo textPlace // where the text of unsure ends
	closed   bool
	fenced   error

	// Of the goroutine.
	published time.Time
	flushed   time.Time
	kept      uint64 // sequence up to which the text is in the database
}

type openBlock struct {
	kind domain.BlockType
	text strings.Builder
}

// textPlace is a place in the text of the blocks.
type textPlace struct {
	block int
	bytes int // of the block
	units int // UTF-16 units of the block
}

// New starts the stream of a turn. Broke is called when another attempt holds the turn.
func New(ctx context.Context, turn domain.OpenedTurn, log Log, turns Turns, broke func(error)) *Stream {
	s := &Stream{
		turn: turn, log: log, turns: turns, broke: broke, flushed: time.Now(),
		more: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)

	return s
}

// Add takes the next piece of the answer.
func (s *Stream) Add(d domain.Delta) error {
	kind := domain.BlockText
	if d.Kind == domain.DeltaThinking {
		kind = domain.BlockThinking
	}

	text := domain.CleanText(d.Text)

	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case s.fenced != nil:
		return s.fenced
	case s.closed:
		return domain.ErrFenced // late deltas are refused
	case text == "":
		return nil
	}

	newBlock := len(s.blocks) == 0 || s.blocks[len(s.blocks)-1].kind != kind
	if newBlock {
		s.blocks = append(s.blocks, &openBlock{kind: kind})
	}

	s.blocks[len(s.blocks)-1].text.WriteString(text)
	before := s.waiting

	s.waiting += len(text)
	if s.ended == nil {
		s.first = len(text)

		s.ended = make(chan struct{})
		go s.publish()
	}

	if newBlock || before == 0 || (before < publishBytes && s.waiting >= publishBytes) {
		s.signal()
	}

	return nil
}

func (s *Stream) signal() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// publish publishes what is added until nothing more is, or the stream is given up.
func (s *Stream) publish() {
	defer close(s.ended)
	// The turn's start is in front of its text.
	if s.turns.Published(s.ctx, s.turn.Session.ID) != nil {
		return
	}

	for closing := false; ; {
		due, ok := s.due(closing)
		if due == 0 {
			if !s.publishNext() || !s.keep() {
				return
			}

			continue
		}

		if closing {
			return
		}

		var timer <-chan time.Time
		if ok {
			timer = time.After(due)
		}

		select {
		case <-s.ctx.Done():
			return
		case <-s.closing:
			closing = true
		case <-s.more:
		case <-timer:
			if !s.keep() {
				return
			}
		}
	}
}

// due returns how long the next delta, or the next flush, must wait; ok is false when
// there is neither.
func (s *Stream) due(closing bool) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.waiting > 0 {
		wait := publishEvery - time.Since(s.published)
		if closing || wait <= 0 || s.waiting >= publishBytes || s.sent.block < len(s.blocks)-1 {
			return 0, true
		}

		return wait, true
	}

	if s.kept != s.last {
		return max(time.Millisecond, flushEvery-time.Since(s.flushed)), true
	}

	return time.Hour, false
}

// publishNext publishes the next delta, however long that takes. It is false when the
// stream was given up.
func (s *Stream) publishNext() bool {
	s.mu.Lock()
	event, to := s.nextDelta(s.sent, s.deltas)
	after := s.last
	s.unsure, s.unsureTo = &event, to
	s.mu.Unlock()

	seq, err := s.log.PublishDelta(s.ctx, event)
	for try := 0; err != nil; try++ {
		s.setFailing()

		if !retry.Wait(s.ctx, deltaBackoff.Pause(try)) {
			return false
		}

		seq, err = s.log.Repeat(s.ctx, event, after)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.waiting -= s.between(s.sent, to)
	s.sent, s.last, s.unsure, s.failing = to, seq, nil, false
	s.deltas++
	s.published = time.Now()

	return true
}

func (s *Stream) setFailing() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.failing = true
}

// keep puts what is published into the database when it is time. It is false when
// another attempt holds the turn.
func (s *Stream) keep() bool {
	s.mu.Lock()
	seq, blocks := s.last, s.textUpTo(s.sent)
	s.mu.Unlock()

	if seq == s.kept || time.Since(s.flushed) < flushEvery {
		return true
	}

	s.flushed = time.Now()

	ctx, cancel := context.WithTimeout(s.ctx, flushTimeout)
	defer cancel()

	err := s.turns.FlushTurn(ctx, s.turn.EntryID, s.turn.Attempt, blocks, seq)
	switch {
	case err == nil:
		s.kept = seq
	case errors.Is(err, domain.ErrFenced):
		s.mu.Lock()
		s.fenced = err
		s.mu.Unlock()
		s.broke(err)

		return false
	}

	return true // the next flush, or the end of the turn, has this text too
}

// Finish ends the stream. It gives the blocks of the turn, and the deltas that the
// event log has not acknowledged, which the end of the turn publishes. The error
// reports that another attempt holds the turn.
func (s *Stream) Finish() ([]domain.Block, []domain.UnpublishedDelta, error) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}

	ended, failing := s.ended, s.failing
	s.mu.Unlock()

	if ended != nil {
		if !failing {
			timer := time.NewTimer(finishWait)
			defer timer.Stop()

			select {
			case <-ended:
			case <-timer.C:
			}
		}

		s.cancel()
		<-ended
	}

	s.cancel()

	s.mu.Lock()
	defer s.mu.Unlock()

	blocks := s.textUpTo(s.end())
	if s.fenced != nil {
		return blocks, nil, s.fenced
	}

	return blocks, s.unpublished(), nil
}

// Shown reports whether clients have seen anything of this turn, or will.
func (s *Stream) Shown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return len(s.blocks) > 0
}
