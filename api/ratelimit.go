package api

import (
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"everloop/domain"
)

// RateLimit bounds the requests of one key in one api process. The zero value
// bounds nothing.
type RateLimit struct {
	PerMinute int // requests a key may make in a minute in the long run
	Burst     int // requests at once; 0: PerMinute

	Now func() time.Time // the clock by which tokens come back; nil: time.Now
}

// limiter keeps one token bucket a key.
type limiter struct {
	perSecond float64
	burst     float64
	now       func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newLimiter(r RateLimit) *limiter {
	if r.PerMinute <= 0 {
		return nil
	}
	if r.Burst <= 0 {
		r.Burst = r.PerMinute
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	return &limiter{perSecond: float64(r.PerMinute) / 60, burst: float64(r.Burst), now: r.Now, buckets: map[string]*bucket{}}
}

// take spends one token of the key. It says whether there was one, how many are
// left, and after how many seconds there will be all again, or, when there was
// none, one.
func (l *limiter) take(key string, now time.Time) (ok bool, left, reset int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		if len(l.buckets) >= 10_000 {
			l.dropFull(now)
		}
		b = &bucket{tokens: l.burst, at: now}
		l.buckets[key] = b
	}
	b.tokens = min(l.burst, b.tokens+now.Sub(b.at).Seconds()*l.perSecond)
	b.at = now
	if b.tokens < 1 {
		return false, 0, max(1, int(math.Ceil((1-b.tokens)/l.perSecond)))
	}
	b.tokens--
	return true, int(b.tokens), int(math.Ceil((l.burst - b.tokens) / l.perSecond))
}

// dropFull forgets the keys that have been quiet long enough to be full again.
func (l *limiter) dropFull(now time.Time) {
	for key, b := range l.buckets {
		if b.tokens+now.Sub(b.at).Seconds()*l.perSecond >= l.burst {
			delete(l.buckets, key)
		}
	}
}

// limit refuses requests beyond the caller's rate. Every answer says what is
// left, in the fields of draft-ietf-httpapi-ratelimit-headers-06. That of a
// refusal has one moment in both RateLimit-Reset and Retry-After, as it asks.
func (s *server) limit(ctx huma.Context, next func(huma.Context)) {
	if s.limiter == nil {
		next(ctx)
		return
	}
	caller := requestOf(ctx.Context()).caller
	key := caller.KeyID
	if key == "" {
		key = caller.User.ID
	}
	ok, left, reset := s.limiter.take(key, s.limiter.now())
	ctx.SetHeader("RateLimit-Limit", strconv.Itoa(int(s.limiter.burst)))
	ctx.SetHeader("RateLimit-Remaining", strconv.Itoa(left))
	ctx.SetHeader("RateLimit-Reset", strconv.Itoa(reset))
	if !ok {
		e := domain.Newf(domain.RateLimited, "rate_limited", "too many requests with this key")
		e.RetryAfter = reset
		s.refuse(ctx, e)
		return
	}
	next(ctx)
}
