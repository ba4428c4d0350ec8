//go:build linux

package sandbox

import (
	"container/list"
	"sync"
	"time"
)

// pool contains prepared sandboxes, at most one of a shape, for sessions that
// recently ran a command.
type pool struct {
	make func(shape) (*instance, error)
	max  int
	idle time.Duration
	// builders bounds the preparations at one time: more would only take the
	// processors from the commands.
	builders chan struct{}

	mu     sync.Mutex
	warm   map[shape]*list.Element
	order  *list.List // of *slot, least recently made first
	closed bool
	busy   sync.WaitGroup
}

// minAge is how long a ready sandbox is safe from another session's need.
const minAge = 2 * time.Second

// slot is a sandbox that is, or will be, ready.
type slot struct {
	shape    shape
	made     time.Time
	building bool
	done     chan struct{}
	timer    *time.Timer
	in       *instance // nil when preparation failed
}

func newPool(make_ func(shape) (*instance, error), limit int, idle time.Duration) *pool {
	return &pool{
		make: make_, max: limit, idle: idle, builders: make(chan struct{}, 2),
		warm: map[shape]*list.Element{}, order: list.New(),
	}
}

// take returns the ready sandbox of a shape, or nil. A sandbox in preparation
// is waited for, a queued one is not.
func (p *pool) take(sh shape) *instance {
	p.mu.Lock()

	e := p.warm[sh]
	if e == nil {
		p.mu.Unlock()
		return nil
	}

	sl := p.remove(e)
	building := sl.building
	p.mu.Unlock()

	if !building {
		return nil
	}

	<-sl.done

	return sl.in
}

// remove takes a slot out; p.mu is held.
func (p *pool) remove(e *list.Element) *slot {
	sl := p.order.Remove(e).(*slot)
	delete(p.warm, sl.shape)

	if sl.timer != nil {
		sl.timer.Stop()
	}

	return sl
}

// ensure has a sandbox of the shape prepared in the background.
func (p *pool) ensure(sh shape) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed || p.max <= 0 || p.warm[sh] != nil {
		return
	}

	for p.order.Len() >= p.max {
		oldest := p.order.Front()
		if time.Since(oldest.Value.(*slot).made) < minAge {
			return // more sessions are active than fit: replacing would only burn time
		}

		p.discard(p.remove(oldest))
	}

	sl := &slot{shape: sh, made: time.Now(), done: make(chan struct{})}
	p.warm[sh] = p.order.PushBack(sl)
	p.busy.Go(func() { p.build(sl) })
}

func (p *pool) build(sl *slot) {
	p.builders <- struct{}{}
	defer func() { <-p.builders }()

	p.mu.Lock()
	wanted := p.holds(sl)
	sl.building = wanted
	p.mu.Unlock()

	if wanted {
		// A failure is not reported here: the next command tries again and reports it.
		sl.in, _ = p.make(sl.shape)
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	close(sl.done)

	if p.holds(sl) {
		sl.timer = time.AfterFunc(p.idle, func() { p.expire(sl) })
	}
}

// holds reports whether the slot was not taken or discarded. The caller holds p.mu.
func (p *pool) holds(sl *slot) bool {
	e := p.warm[sl.shape]
	return e != nil && e.Value == sl
}

func (p *pool) expire(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.holds(sl) {
		p.discard(p.remove(p.warm[sl.shape]))
	}
}

// discard ends a slot's sandbox in the background; p.mu is held.
func (p *pool) discard(sl *slot) {
	if !sl.building {
		return
	}

	p.busy.Go(func() {
		<-sl.done

		if sl.in != nil {
			sl.in.discard()
		}
	})
}

// dropIf discards all sandboxes whose shape matches.
func (p *pool) dropIf(match func(shape) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for e := p.order.Front(); e != nil; {
		next := e.Next()
		if match(e.Value.(*slot).shape) {
			p.discard(p.remove(e))
		}

		e = next
	}
}

// close discards all sandboxes and waits until they have ended.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.dropIf(func(shape) bool { return true })
	p.busy.Wait()
}
