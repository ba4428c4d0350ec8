package api_test

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/auth"
)

// limits returns the three headers of a limited key, as numbers.
func (r reply) limits() (limit, left, reset int) {
	r.t.Helper()

	number := func(name string) int {
		n, err := strconv.Atoi(r.header.Get(name))
		require.NoError(r.t, err, name)

		return n
	}

	return number("RateLimit-Limit"), number("RateLimit-Remaining"), number("RateLimit-Reset")
}

// stopped is a clock that a test sets.
type stopped struct{ at atomic.Int64 }

func (c *stopped) now() time.Time           { return time.Unix(0, c.at.Load()) }
func (c *stopped) advance(by time.Duration) { c.at.Add(int64(by)) }

func TestRateLimit(t *testing.T) {
	t.Parallel()

	var clock stopped

	w := newWorld(t, func(c *parts) {
		c.Limiter = auth.NewLimiter(auth.RateLimit{PerMinute: 1, Burst: 6, Now: clock.now})
	})
	// What is refused after the caller is known counts, and says what is left.
	for i, r := range []reply{
		w.do("GET", "/api/auth/me", w.ann, ""),
		w.do("GET", "/api/sessions/none", w.ann, ""),
		w.do("POST", "/api/sessions", w.ann, `{"intent":5}`),
		w.do("GET", "/api/admin/users", w.ann, ""),
		w.do("POST", "/api/sessions", w.ann, `{}`, header("Content-Encoding", "gzip")),
		w.do("HEAD", "/api/auth/me", w.ann, ""),
	} {
		require.Equal(t, []int{200, 404, 422, 403, 415, 200}[i], r.status, r.text)
		limit, left, reset := r.limits()
		require.Equal(t, 6, limit)
		require.Equal(t, 5-i, left)
		require.Equal(t, 60*(i+1), reset, "a request a minute comes back")
	}

	r := w.do("GET", "/api/auth/me", w.ann, "")
	r.code(429, "rate_limited")
	require.Equal(t, true, r.problem(429)["retryable"])
	limit, left, reset := r.limits()
	require.Equal(t, []int{6, 0, 60}, []int{limit, left, reset})
	require.Equal(t, "60", r.header.Get("Retry-After"))
	clock.advance(59 * time.Second)
	w.do("GET", "/api/auth/me", w.ann, "").code(429, "rate_limited")
	clock.advance(time.Second)
	require.Equal(t, 200, w.do("GET", "/api/auth/me", w.ann, "").status, "one has come back")
	w.do("GET", "/api/auth/me", w.ann, "").code(429, "rate_limited")
}

func TestRateLimit_eachKeyHasItsOwn(t *testing.T) {
	t.Parallel()

	var clock stopped

	w := newWorld(t, func(c *parts) {
		c.Limiter = auth.NewLimiter(auth.RateLimit{PerMinute: 1, Burst: 3, Now: clock.now})
	})
	left := func(key string) int {
		r := w.do("GET", "/api/auth/me", key, "")
		require.Equal(t, 200, r.status, r.text)
		_, left, _ := r.limits()

		return left
	}
	require.Equal(t, 2, left(w.ann))

	for _, wrong := range []string{"", "el_wrong", w.ann + "x", "not a key"} {
		for range 4 {
			r := w.do("GET", "/api/auth/me", wrong, "")
			r.code(401, "unauthorized")
			require.Empty(t, r.header.Get("RateLimit-Limit"))
		}
	}

	for range 4 {
		r := w.do("GET", "/healthz", w.ann, "")
		require.Equal(t, 200, r.status)
		require.Empty(t, r.header.Get("RateLimit-Limit"), "what is open to all costs nothing")
	}

	require.Equal(t, 1, left(w.ann))
	require.Equal(t, 2, left(w.bob))
	require.Equal(t, 2, left(w.restricted("chat")), "another key of the same user")
	require.Equal(t, 0, left(w.ann))
	r := w.do("GET", "/api/auth/me", w.ann, "")
	r.code(429, "rate_limited")
}

func TestNoRateLimitUnlessConfigured(t *testing.T) {
	t.Parallel()

	w := newWorld(t)
	for range 100 {
		r := w.do("GET", "/api/auth/me", w.ann, "")
		require.Equal(t, 200, r.status)

		for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
			require.Empty(t, r.header.Values(name))
		}
	}
}

// A page of another origin sees only the headers that are named to its browser.
func TestPagesReadWhatTheyNeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *parts) {
		c.Origins = []string{"https://desktop.example"}
		c.Limiter = auth.NewLimiter(auth.RateLimit{PerMinute: 1, Now: new(stopped).now})
	})
	ours := header("Origin", "https://desktop.example")
	require.Equal(t, 200, w.do("GET", "/api/auth/me", w.ann, "", ours).status)
	r := w.do("GET", "/api/auth/me", w.ann, "", ours)
	r.code(429, "rate_limited")

	exposed := strings.Split(r.header.Get("Access-Control-Expose-Headers"), ", ")
	for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After", "X-Request-Id"} {
		require.NotEmpty(t, r.header.Get(name))
		require.Contains(t, exposed, name)
	}

	require.Subset(t, exposed, []string{"ETag", "Content-Disposition", "Content-Range", "Idempotency-Replayed"})
	require.True(t, slices.IsSorted(exposed))
}
