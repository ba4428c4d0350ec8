package httpx

import (
	"context"
	"sync"

	"everloop/domain"
)

// openStreams are the event streams that are open here, so that a change of rights
// ends those that it Concerns at once and not at their next pulse.
type openStreams struct {
	mu   sync.Mutex
	open map[*openStream]struct{}
}

// openStream is whose stream of which session it is.
type openStream struct {
	caller    domain.Caller
	sessionID domain.SessionID
	poke      chan struct{}
}

func (s *openStream) concerns(change domain.RightsChange) bool {
	return change.SessionID != "" && change.SessionID == s.sessionID ||
		change.KeyID != "" && change.KeyID == s.caller.KeyID ||
		change.UserID != "" && change.UserID == s.caller.User.ID
}

// join returns a channel that says when the rights of a stream may have changed.
func (s *openStreams) join(caller domain.Caller, sessionID domain.SessionID) (poke <-chan struct{}, leave func()) {
	own := &openStream{caller: caller, sessionID: sessionID, poke: make(chan struct{}, 1)}

	s.mu.Lock()
	defer s.mu.Unlock()

	if s.open == nil {
		s.open = map[*openStream]struct{}{}
	}

	s.open[own] = struct{}{}

	return own.poke, func() {
		s.mu.Lock()
		defer s.mu.Unlock()

		delete(s.open, own)
	}
}

// changed has every stream that a change Concerns look at its rights.
func (s *openStreams) changed(_ context.Context, change domain.RightsChange) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for stream := range s.open {
		if !stream.concerns(change) {
			continue
		}

		select {
		case stream.poke <- struct{}{}:
		default: // it will look anyway
		}
	}
}
