//go:build linux

package snapshots

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"everloop/domain"
	"everloop/infra/snapshots/manifest"
)

// session is the cache of one session.
type session struct {
	id   domain.SessionID
	turn chan struct{} // semaphore of one token; its owner can store

	used uint64 // guarded by Store.mu

	mu     sync.Mutex
	latest *tree   // of the last walk
	loaded []*tree // cached manifests, the most recently used last
	// Objects that are in the store.
	blobs  map[hash]location
	chunks map[hash]struct{}
	parts  map[hash]struct{}

	written atomic.Int64 // bytes of stored objects
}

// keptManifests is the number of cached manifests per session: one for captures, and two for a
// comparison.
const keptManifests = 3

// session returns the cache of a session, and evicts others when the cache is full. An eviction
// costs only time.
func (s *Store) session(id domain.SessionID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.clock++

	ses := s.sessions[id]
	if ses == nil {
		s.shrink()

		ses = &session{
			id: id, turn: make(chan struct{}, 1),
			blobs: map[hash]location{}, chunks: map[hash]struct{}{}, parts: map[hash]struct{}{},
		}
		s.sessions[id] = ses
	}

	ses.used = s.clock

	return ses
}

// shrink evicts the least recently used sessions.
func (s *Store) shrink() {
	type weighed struct {
		ses    *session
		weight int
	}

	var list []weighed

	total := 0

	for _, ses := range s.sessions {
		w := ses.weight()
		total += w
		list = append(list, weighed{ses, w})
	}

	if total <= s.budget {
		return
	}

	slices.SortFunc(list, func(a, b weighed) int { return int(int64(a.ses.used) - int64(b.ses.used)) })

	for _, w := range list {
		if total <= s.budget {
			return
		}

		delete(s.sessions, w.ses.id)
		total -= w.weight
	}
}

func (s *session) weight() int {
	s.mu.Lock()
	defer s.mu.Unlock()

	n := 64 + len(s.blobs)/2
	if s.latest != nil {
		n += s.latest.weight()
	}

	for _, t := range s.loaded {
		if t != s.latest {
			n += t.weight()
		}
	}

	return n
}

// lock waits for the session's storing semaphore. It serialises snapshots, so that the second
// reuses what the first has stored.
func (s *session) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remembered returns a cached manifest, or nil.
func (s *session) remembered(sum hash) *tree {
	s.mu.Lock()
	defer s.mu.Unlock()

	for i, t := range s.loaded {
		if t.sum == sum {
			s.loaded = append(slices.Delete(s.loaded, i, i+1), t)
			return t
		}
	}

	return nil
}

// remember caches a manifest that is in the store.
func (s *session) remember(t *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.loaded = slices.DeleteFunc(s.loaded, func(o *tree) bool { return o.sum == t.sum })
	if len(s.loaded) == keptManifests {
		s.loaded = slices.Delete(s.loaded, 0, 1)
	}

	s.loaded = append(s.loaded, t)
}

// last returns the tree of the last walk, or nil.
func (s *session) last() *tree {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.latest
}

func (s *session) walked(t *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.latest = t
}

// holds reports whether the content of a file is in the store.
func (s *session) holds(e *manifest.Entry) bool {
	if e.Identity.Size == 0 {
		return true
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if e.Chunks == nil {
		_, known := s.blobs[e.Sum]
		return known
	}

	for _, c := range e.Chunks {
		if _, known := s.chunks[c.Sum]; !known && c.Zeros == 0 {
			return false
		}
	}

	return true
}

func (s *session) blobKnown(sum hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	_, known := s.blobs[sum]

	return known
}

func (s *session) chunkKnown(sum hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	_, known := s.chunks[sum]

	return known
}

func (s *session) location(sum hash) location {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.blobs[sum]
}
