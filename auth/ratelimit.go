package auth

import (
	"cmp"
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"everloop/domain"
)

// RateLimit bounds the requests by one API key in one process. The zero value is unlimited.
type RateLimit struct {
	PerMinute int // sustained requests of a key in a minute
	Burst     int // max burst of requests; 0: PerMinute

	Now func() time.Time // clock of the token refill; nil: time.Now
}

// Limiter has one token bucket for each key, and one for each user of credentials without a
// key. Both edges take from the same bucket, so that a socket does not bypass the limit. A nil
// Limiter is unlimited. It is safe for concurrent use.
type Limiter struct {
	bucket bucketSize
	now    func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// bucketSize contains the parameters of all token buckets of one limit.
type bucketSize struct {
	perSecond rate.Limit
	burst     int
}

func newBucketSize(perMinute, burst int) bucketSize {
	return bucketSize{perSecond: rate.Limit(perMinute) / 60, burst: burst}
}

func (s bucketSize) full() *rate.Limiter { return rate.NewLimiter(s.perSecond, s.burst) }

// isFull reports whether a bucket is full.
func (s bucketSize) isFull(b *rate.Limiter, now time.Time) bool {
	return b.TokensAt(now) >= float64(s.burst)
}

// seconds returns the time of a bucket to refill from one number of tokens to another.
func (s bucketSize) seconds(from, to float64) int {
	return int(math.Ceil((to - from) / float64(s.perSecond)))
}

// NewLimiter returns a new Limiter; nil for an unlimited RateLimit.
func NewLimiter(r RateLimit) *Limiter {
	if r.PerMinute <= 0 {
		return nil
	}

	if r.Burst <= 0 {
		r.Burst = r.PerMinute
	}

	if r.Now == nil {
		r.Now = time.Now
	}

	return &Limiter{bucket: newBucketSize(r.PerMinute, r.Burst), now: r.Now, buckets: map[string]*rate.Limiter{}}
}

// Allowance is the state of a bucket after a request.
type Allowance struct {
	Limit int // max burst of requests; 0: unlimited
	Left  int
	Reset int // seconds until the bucket is full, or after a rejection until it has one token
}

// Take takes one token of the caller's credential. The error is rate_limited, with the seconds
// to wait.
func (l *Limiter) Take(caller domain.Caller) (Allowance, error) {
	if l == nil {
		return Allowance{}, nil
	}

	ok, left, reset := l.take(cmp.Or(caller.KeyID, caller.User.ID), l.now())

	allowance := Allowance{Limit: l.bucket.burst, Left: left, Reset: reset}
	if !ok {
		e := domain.Newf(domain.RateLimited, "rate_limited", "too many requests, retry in %d s", reset)
		e.RetryAfter = reset

		return allowance, e
	}

	return allowance, nil
}

func (l *Limiter) take(credential string, now time.Time) (ok bool, left, reset int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	b := l.buckets[credential]
	if b == nil {
		if len(l.buckets) >= maxCredentials {
			maps.DeleteFunc(l.buckets, func(_ string, b *rate.Limiter) bool { return l.bucket.isFull(b, now) })
		}

		b = l.bucket.full()
		l.buckets[credential] = b
	}

	ok = b.AllowN(now, 1)

	tokens := b.TokensAt(now)
	if !ok {
		return false, 0, max(1, l.bucket.seconds(tokens, 1))
	}

	return true, int(tokens), l.bucket.seconds(tokens, float64(l.bucket.burst))
}

// maxCredentials is the number of credentials above which full buckets are removed.
const maxCredentials = 10_000
