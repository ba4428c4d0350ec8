package sio

import (
	"sync"
	"time"
)

// burstSeconds is how many seconds' worth of packets may come at once.
const burstSeconds = 5

// pace is a token bucket that makes its caller wait rather than fail: the
// client is read more slowly and TCP tells it so.
type pace struct {
	mu     sync.Mutex
	rate   float64 // tokens a second
	tokens float64
	last   time.Time
}

func (p *pace) init(rate int) {
	p.rate = float64(rate)
	p.tokens = p.rate * burstSeconds
	p.last = time.Now()
}

// wait takes one token, waiting for it if need be. It returns false when done
// was closed meanwhile.
func (p *pace) wait(done <-chan struct{}) bool {
	delay := p.take()
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

func (p *pace) take() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.tokens = min(p.tokens+now.Sub(p.last).Seconds()*p.rate, p.rate*burstSeconds)
	p.last = now
	p.tokens--
	if p.tokens >= 0 {
		return 0
	}
	return time.Duration(-p.tokens / p.rate * float64(time.Second))
}
