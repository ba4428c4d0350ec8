package sio

import (
	"time"

	"golang.org/x/time/rate"
)

// burstSeconds is the size of a burst, in seconds at the allowed rate.
const burstSeconds = 5

// pace is a token bucket that blocks its caller instead of failing: the client is read more
// slowly and TCP slows it down.
type pace struct{ bucket *rate.Limiter }

func (p *pace) init(perSecond int) {
	p.bucket = rate.NewLimiter(rate.Limit(perSecond), perSecond*burstSeconds)
}

// wait takes one token, waiting for it if necessary. It returns false when done was closed in
// the meantime.
func (p *pace) wait(done <-chan struct{}) bool {
	delay := p.bucket.Reserve().Delay()
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
