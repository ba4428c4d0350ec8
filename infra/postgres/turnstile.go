package postgres

import "sync"

// turnstile lets the changes of a session publish their events one after the
// other, in the order in which they entered it. It holds within one process;
// between two, the rows of the outbox tell what is before (publishAll).
type turnstile struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by session: closed when its newest change has left
}

// place is a change's place in the queue of its session. A nil place is none.
type place struct {
	of      *turnstile
	session string
	before  <-chan struct{} // nil: nobody is before
	left    chan struct{}
}

func (t *turnstile) enter(session string) *place {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]chan struct{}{}
	}
	p := &place{of: t, session: session, left: make(chan struct{})}
	if before, queued := t.last[session]; queued {
		p.before = before
	}
	t.last[session] = p.left
	return p
}

// await returns when all before have left. Each is bounded by the time that its
// events may take.
func (p *place) await() {
	if p.before != nil {
		<-p.before
	}
}

// leave lets the next one go; it comes after await.
func (p *place) leave() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	close(p.left)
	if p.of.last[p.session] == p.left {
		delete(p.of.last, p.session)
	}
}

// giveUp leaves without a turn: whoever is behind still waits for those before.
func (p *place) giveUp() {
	if p == nil {
		return
	}
	go func() {
		p.await()
		p.leave()
	}()
}
