package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sharedPatience bounds a question whose callers are still there.
const sharedPatience = time.Minute

// shared asks the same question once for all who wait for its answer. Nobody gets
// an answer that was begun before he asked, so that none is older than one of his
// own would be: who comes while it is looked for waits for the next one. Callers
// do not change what they get. The zero value is ready.
type shared[Q comparable, A any] struct {
	mu     sync.Mutex
	asking map[Q]bool        // an answer is looked for
	next   map[Q]*shareOf[A] // who waits for the one after it
}

// shareOf is one answer and those who wait for it.
type shareOf[A any] struct {
	ctx     context.Context
	cancel  context.CancelFunc
	waiting int
	done    chan struct{} // closed when answer and err stand
	answer  A
	err     error
}

// ask begins to wait for an answer, which the function that it gives waits for; it
// must be called. find is the same for the same question, and is given a context
// that ends when nobody waits any more.
func (s *shared[Q, A]) ask(ctx context.Context, question Q, find func(context.Context) (A, error)) (wait func() (A, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking == nil {
		s.asking, s.next = map[Q]bool{}, map[Q]*shareOf[A]{}
	}
	share, joined := s.next[question]
	if !joined {
		share = &shareOf[A]{done: make(chan struct{})}
		share.ctx, share.cancel = context.WithTimeout(context.WithoutCancel(ctx), sharedPatience)
		if s.asking[question] {
			s.next[question] = share
		} else {
			s.asking[question] = true
			go s.find(question, share, find)
		}
	}
	share.waiting++
	return func() (A, error) {
		defer s.leave(question, share)
		select {
		case <-share.done:
			return share.answer, share.err
		case <-ctx.Done():
			var none A
			return none, ctx.Err()
		}
	}
}

// find looks for the answer, and then for that of those who came meanwhile.
func (s *shared[Q, A]) find(question Q, share *shareOf[A], find func(context.Context) (A, error)) {
	for share != nil {
		share.settle(find)
		share = s.following(question)
	}
}

// settle turns a panic into an error: the goroutine is nobody's request.
func (share *shareOf[A]) settle(find func(context.Context) (A, error)) {
	defer close(share.done)
	defer share.cancel()
	defer func() {
		if p := recover(); p != nil {
			share.err = fmt.Errorf("panic: %v", p)
		}
	}()
	share.answer, share.err = find(share.ctx)
}

// following gives those who wait for the next answer; nil when nobody does.
func (s *shared[Q, A]) following(question Q) *shareOf[A] {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.next[question]
	delete(s.next, question)
	if share == nil {
		delete(s.asking, question)
	}
	return share
}

func (s *shared[Q, A]) leave(question Q, share *shareOf[A]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if share.waiting--; share.waiting > 0 {
		return
	}
	share.cancel()
	if s.next[question] == share { // nobody is to join what is given up
		delete(s.next, question)
	}
}
