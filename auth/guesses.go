package auth

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"everloop/domain"
)

// CodeTooManyGuesses is the code of a refusal because of wrong credentials before.
const CodeTooManyGuesses = "too_many_guesses"

// maxAddresses bounds what is remembered of clients, in entries of each kind.
const maxAddresses = 10_000

// guesses counts wrong credentials by the address that they came from. An address
// that has used up its allowance is refused without a look at what it sends, so that
// a right guess among wrong ones is not found out; credentials that were accepted
// from there before still are. What was refused once and is sent again is no new
// guess. A nil guesses allows everything.
type guesses struct {
	bucket bucketSize
	now    func() time.Time

	mu       sync.Mutex
	failures map[string]*rate.Limiter
	judged   map[attempt]bool // whether what an address sent held, the last time
}

// attempt is what an address has sent as credentials.
type attempt struct {
	address     string
	credentials [sha256.Size]byte
}

func newGuesses(perMinute int, now func() time.Time) *guesses {
	if perMinute <= 0 {
		return nil
	}

	return &guesses{
		bucket: newBucketSize(perMinute, perMinute), now: now,
		failures: map[string]*rate.Limiter{}, judged: map[attempt]bool{},
	}
}

func attemptOf(address string, c Credentials) attempt {
	return attempt{address, sha256.Sum256([]byte(c.Bearer + "\x00" + c.Cookie))}
}

// check refuses an address without guesses left.
func (g *guesses) check(of attempt) error {
	g.mu.Lock()
	defer g.mu.Unlock()

	if _, known := g.judged[of]; known {
		return nil
	}

	b := g.failures[of.address]
	if b == nil {
		return nil
	}

	tokens := b.TokensAt(g.now())
	if tokens >= 1 {
		return nil
	}

	wait := max(1, g.bucket.seconds(tokens, 1))
	refused := domain.Newf(domain.RateLimited, CodeTooManyGuesses, "too many wrong credentials came from this address, retry in %d s", wait)
	refused.RetryAfter = wait

	return refused
}

// note remembers how credentials were judged.
func (g *guesses) note(of attempt, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()

	held, refused := err == nil, domain.AsError(err).Kind == domain.Unauthenticated
	if !held && !refused {
		return // an outage says nothing
	}

	if before, known := g.judged[of]; refused && (!known || before) {
		g.spend(of.address)
	}

	if len(g.judged) >= maxAddresses {
		clear(g.judged)
	}

	g.judged[of] = held
}

func (g *guesses) spend(address string) {
	now := g.now()

	b := g.failures[address]
	if b == nil {
		g.dropOld(now)
		b = g.bucket.full()
		g.failures[address] = b
	}

	b.AllowN(now, 1)
}

// dropOld makes room for one more address: those whose allowance is whole again go,
// and when there are none, all.
func (g *guesses) dropOld(now time.Time) {
	if len(g.failures) < maxAddresses {
		return
	}

	maps.DeleteFunc(g.failures, func(_ string, b *rate.Limiter) bool { return g.bucket.isFull(b, now) })

	if len(g.failures) >= maxAddresses {
		clear(g.failures)
	}
}

// From is where credentials came from.
type From struct {
	Network string // what counts as one client
	IP      string // kept as that of the last use of an API key; empty: it is not known
}

// AuthenticateFrom is Authenticate for credentials that came from a client, whose wrong
// guesses are counted: beyond [Options.GuessesPerMinute] the error is too_many_guesses,
// with the seconds to wait.
func (a *Authenticator) AuthenticateFrom(ctx context.Context, from From, c Credentials) (domain.Caller, error) {
	if a.guesses == nil || c == (Credentials{}) {
		return a.authenticate(ctx, from.IP, c)
	}

	of := attemptOf(from.Network, c)
	if err := a.guesses.check(of); err != nil {
		return domain.Caller{}, err
	}

	caller, err := a.authenticate(ctx, from.IP, c)
	a.guesses.note(of, err)

	return caller, err
}
