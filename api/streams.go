package api

import "sync"

// openStreams are the event streams that are open here, by session, so that a
// change of rights ends those that it concerns at once and not at their next
// pulse.
type openStreams struct {
	mu    sync.Mutex
	pokes map[string]map[chan struct{}]struct{}
}

// join gives a channel that says when the rights to a session may have changed.
func (s *openStreams) join(sessionID string) (poke <-chan struct{}, leave func()) {
	own := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pokes == nil {
		s.pokes = map[string]map[chan struct{}]struct{}{}
	}
	if s.pokes[sessionID] == nil {
		s.pokes[sessionID] = map[chan struct{}]struct{}{}
	}
	s.pokes[sessionID][own] = struct{}{}
	return own, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pokes[sessionID], own)
		if len(s.pokes[sessionID]) == 0 {
			delete(s.pokes, sessionID)
		}
	}
}

// poke has every stream of a session look at its rights.
func (s *openStreams) poke(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for own := range s.pokes[sessionID] {
		select {
		case own <- struct{}{}:
		default: // it will look anyway
		}
	}
}
