package history

import (
	"context"
	"sync"

	"everloop/domain"
)

// capturing is what is under way for one session.
type capturing struct {
	users  int           // guarded by Capturer.mu
	queued bool          // a look that has not begun; guarded by Capturer.mu
	look   chan struct{} // holds one token: who looks at the files has it

	mu     sync.Mutex
	inHand map[string]chan struct{} // checkpoints being stored; closed when that is over
	latest chan struct{}            // that of the capture before; nil: there was none
}

func (c *Capturer) enter(sessionID domain.SessionID) *capturing {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.sessions == nil {
		c.sessions = map[domain.SessionID]*capturing{}
	}

	s := c.sessions[sessionID]
	if s == nil {
		s = &capturing{look: make(chan struct{}, 1), inHand: map[string]chan struct{}{}}
		c.sessions[sessionID] = s
	}

	s.users++

	return s
}

func (c *Capturer) leave(sessionID domain.SessionID, s *capturing) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if s.users--; s.users == 0 {
		delete(c.sessions, sessionID)
	}
}

func (c *Capturer) locked(ctx context.Context, s *capturing, do func() error) error {
	select {
	case s.look <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}

	defer func() { <-s.look }()

	return do()
}

// begin marks checkpoints as being stored. before is closed when the capture before
// them is over.
func (s *capturing) begin(ids []string) (before <-chan struct{}, over func()) {
	done := make(chan struct{})

	s.mu.Lock()
	defer s.mu.Unlock()

	before = closed
	if s.latest != nil {
		before = s.latest
	}

	s.latest = done
	for _, id := range ids {
		s.inHand[id] = done
	}

	return before, func() {
		s.mu.Lock()
		defer s.mu.Unlock()

		for _, id := range ids {
			delete(s.inHand, id)
		}

		close(done)
	}
}

// closed is what there is to wait for before a first capture: nothing.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)

	return c
}()

func (s *capturing) hand() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	ids := make([]string, 0, len(s.inHand))
	for id := range s.inHand {
		ids = append(ids, id)
	}

	return ids
}

// stored waits until what is being stored now has been.
func (s *capturing) stored(ctx context.Context) error {
	s.mu.Lock()

	waiting := make([]chan struct{}, 0, len(s.inHand))
	for _, done := range s.inHand {
		waiting = append(waiting, done)
	}
	s.mu.Unlock()

	for _, done := range waiting {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return nil
}
