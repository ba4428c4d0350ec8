package history

import (
	"context"
	"sync"

	"everloop/domain"
)

// capturing is what is under way for one session.
type capturing struct {
	users  int           // guarded by Capturer.mu
	queued bool          // a look that has not started; guarded by Capturer.mu
	look   chan struct{} // holds one token: who looks at the files has it

	mu     sync.Mutex
	inHand map[string]*transfer // checkpoints being stored
	latest *transfer            // the capture before; nil: there was none
}

// transfer is a capture that is being stored.
type transfer struct {
	done    chan struct{} // closed when that has ended
	delayed chan struct{} // closed when an outage keeps it waiting
}

func (c *Capturer) enter(sessionID domain.SessionID) *capturing {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.sessions == nil {
		c.sessions = map[domain.SessionID]*capturing{}
	}

	s := c.sessions[sessionID]
	if s == nil {
		s = &capturing{look: make(chan struct{}, 1), inHand: map[string]*transfer{}}
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

// begin marks checkpoints as being stored, until over. before is the capture before them,
// nil when there was none.
func (s *capturing) begin(ids []string) (before, own *transfer) {
	own = &transfer{done: make(chan struct{}), delayed: make(chan struct{})}

	s.mu.Lock()
	defer s.mu.Unlock()

	before, s.latest = s.latest, own
	for _, id := range ids {
		s.inHand[id] = own
	}

	return before, own
}

func (s *capturing) over(ids []string, own *transfer) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, id := range ids {
		delete(s.inHand, id)
	}

	close(own.done)
}

func (s *capturing) hand() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	ids := make([]string, 0, len(s.inHand))
	for id := range s.inHand {
		ids = append(ids, id)
	}

	return ids
}

// stored waits until what is being stored now has been, or an outage delays it.
func (s *capturing) stored(ctx context.Context) error {
	s.mu.Lock()

	waiting := make([]*transfer, 0, len(s.inHand))
	for _, t := range s.inHand {
		waiting = append(waiting, t)
	}
	s.mu.Unlock()

	for _, t := range waiting {
		select {
		case <-t.done:
		case <-t.delayed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return nil
}
