package clients

import (
	"crypto/sha256"
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxRemembered bounds what is remembered of clients, in entries of each kind.
const maxRemembered = 10_000

// Guesses counts the different wrong credentials of each client, by the text of its network.
// A client that has used up its allowance is refused without a look at what it sends, so
// that a right guess among wrong ones is not found out; what was accepted from there before
// still is. It is safe for concurrent use.
type Guesses struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	left   map[string]*rate.Limiter
	judged map[guess]bool // whether what a client sent held, the last time
}

// guess is what a client has sent.
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

// Wait returns how many seconds a client must wait before it may send new credentials, and 0
// when these may be judged now.
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

// Note remembers whether credentials held. What was refused once and is sent again is no
// new guess.
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
		if len(g.left) >= maxRemembered { // those that are whole again go, or else all
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
