package clients

import (
	"crypto/sha256"
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxRemembered is the maximum number of entries of each kind in memory.
const maxRemembered = 10_000

// Guesses counts the distinct wrong credentials of each client, by the text of its network. A
// client above its allowance is rejected without a check of its credentials, so that a correct
// guess is not revealed; credentials that were accepted from it before still work. It is safe for
// concurrent use.
type Guesses struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	left   map[string]*rate.Limiter
	judged map[guess]bool // result of the last check of a client's credentials
}

// guess identifies credentials of a client.
type guess struct {
	client      string
	credentials [sha256.Size]byte
}

// NewGuesses returns a new allowance of guesses a minute for each client, or nil for 0: no
// bound. Without now it reads time.Now.
func NewGuesses(perMinute int, now func() time.Time) *Guesses {
	if perMinute <= 0 {
		return nil
	}

	if now == nil {
		now = time.Now
	}

	return &Guesses{most: perMinute, now: now, left: map[string]*rate.Limiter{}, judged: map[guess]bool{}}
}

// Wait returns the number of seconds until a client can try new credentials, and 0 when these can
// be checked now.
func (g *Guesses) Wait(client string, credentials [sha256.Size]byte) int {
	of := guess{client, credentials}

	g.mu.Lock()
	defer g.mu.Unlock()

	left := g.left[of.client]
	if _, known := g.judged[of]; known || left == nil {
		return 0
	}

	tokens := left.TokensAt(g.now())
	if tokens >= 1 {
		return 0
	}

	return max(1, int(math.Ceil((1-tokens)*60/float64(g.most))))
}

// Note records the result of a check. Repeated wrong credentials count once.
func (g *Guesses) Note(client string, credentials [sha256.Size]byte, held bool) {
	of := guess{client, credentials}

	g.mu.Lock()
	defer g.mu.Unlock()

	if before, known := g.judged[of]; !held && (!known || before) {
		g.spend(of.client)
	}

	if len(g.judged) >= maxRemembered {
		clear(g.judged)
	}

	g.judged[of] = held
}

func (g *Guesses) spend(client string) {
	now := g.now()

	left := g.left[client]
	if left == nil {
		if len(g.left) >= maxRemembered { // drop full buckets, or else all
			maps.DeleteFunc(g.left, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(g.most) })

			if len(g.left) >= maxRemembered {
				clear(g.left)
			}
		}

		left = rate.NewLimiter(rate.Limit(g.most)/60, g.most)
		g.left[client] = left
	}

	left.AllowN(now, 1)
}
