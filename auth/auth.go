// Package auth authenticates callers. Both edges, REST and Socket.IO, use it in the same way.
// It verifies API keys itself; other credentials (tokens and session cookies of an identity
// service) are verified by Verifiers that the wiring adds. It must not depend on a transport or
// an engine.
package auth

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"everloop/internal/clients"

	"everloop/domain"
)

// Credentials are the credentials of a request: the token of its Authorization header (or of a
// socket's handshake), and the value of its session cookie. If both are present only the token
// counts.
type Credentials struct {
	Bearer string
	Cookie string
}

// Keys is the store of API keys.
type Keys interface {
	// KeyByHash returns the valid key with this SHA-256 and its user; found is false for keys
	// that are unknown, revoked, expired or of a deleted user.
	KeyByHash(ctx context.Context, hash []byte) (user domain.User, key domain.APIKey, found bool, err error)
	// CredentialsAlive reports whether the user of each caller, and the key if it has one,
	// is still valid, and whether an administrator still is one.
	CredentialsAlive(ctx context.Context, callers []domain.Caller) ([]bool, error)
	// TouchKeys records the last uses of keys.
	TouchKeys(ctx context.Context, used map[string]domain.KeyUse) error
	// EnsureBootstrap sets up the first administrator; see Authenticator.
	EnsureBootstrap(ctx context.Context, user domain.User, key domain.APIKey, hash []byte, force bool) (wrote bool, err error)
}

// ErrNotMine is returned by a Verifier for credentials of another kind.
var ErrNotMine = errors.New("credentials of another kind")

// Verifier verifies one further kind of credentials. It returns the caller, ErrNotMine to pass
// the credentials to the next Verifier, or Unauthorized.
type Verifier interface {
	Verify(ctx context.Context, c Credentials) (domain.Caller, error)
}

// Liveness is implemented by Verifiers whose credentials can end before they expire.
type Liveness interface {
	// Alive returns the valid ones of the sessions and tokens, by their Caller.Grant. An error
	// reports that their state is unknown.
	Alive(ctx context.Context, grants []string) ([]string, error)
}

// Options configure an Authenticator; the zero value is ready for use.
type Options struct {
	CacheFor  time.Duration // how long a key is cached; 0: 5 s
	Verifiers []Verifier    // called in this order for credentials other than API keys
	Logger    *slog.Logger  // nil: the default one
	Now       func() time.Time

	// Known returns an error while the state of a user's account is unknown, so that their API
	// key must not be accepted; nil: it is always known.
	Known func(user domain.User) error

	GuessesPerMinute int // wrong credentials of one address in a minute, see AuthenticateFrom; 0: unlimited
}

// Authenticator authenticates callers. It is safe for concurrent use.
type Authenticator struct {
	keys      Keys
	verifiers []Verifier
	cache     *cache
	uses      *uses
	guesses   *clients.Guesses // nil: everything is allowed
	known     func(domain.User) error
	now       func() time.Time
}

// New returns a new Authenticator. Close it to write the last uses of keys.
func New(keys Keys, opts Options) *Authenticator {
	if opts.CacheFor == 0 {
		opts.CacheFor = 5 * time.Second
	}

	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}

	if opts.Known == nil {
		opts.Known = func(domain.User) error { return nil }
	}

	if opts.Now == nil {
		opts.Now = time.Now
	}

	return &Authenticator{
		keys: keys, verifiers: opts.Verifiers, known: opts.Known, now: opts.Now,
		cache: newCache(opts.CacheFor), uses: newUses(keys, opts.Logger),
		guesses: clients.NewGuesses(opts.GuessesPerMinute, opts.Now),
	}
}

// Close waits until the recorded uses of keys are written.
func (a *Authenticator) Close() { a.uses.wait() }

// Unauthorized returns the error for missing and for wrong credentials, which are not
// distinguished.
func Unauthorized() *domain.Error {
	return domain.Newf(domain.Unauthenticated, domain.CodeUnauthorized, "valid credentials are required")
}

// Authenticate returns the owner of the credentials. The error is Unauthorized, or reports that
// the database is unavailable.
func (a *Authenticator) Authenticate(ctx context.Context, c Credentials) (domain.Caller, error) {
	return a.authenticate(ctx, "", c)
}

func (a *Authenticator) authenticate(ctx context.Context, ip string, c Credentials) (domain.Caller, error) {
	if c.Bearer != "" {
		c.Cookie = "" // a request with a token is never authenticated by its cookie
	}

	if c == (Credentials{}) {
		return domain.Caller{}, Unauthorized()
	}

	if !hasKeyPrefix(c.Bearer) {
		caller, err := a.byVerifier(ctx, c)
		if !errors.Is(err, ErrNotMine) {
			return caller, err
		}
	}

	if c.Bearer == "" || len(c.Bearer) > maxKeyLength {
		return domain.Caller{}, Unauthorized()
	}

	return a.byKey(ctx, ip, c.Bearer) // an operator's own bootstrap key needs no prefix
}

// byVerifier calls the Verifiers in their order. An accepted result is cached as long as a key
// is.
func (a *Authenticator) byVerifier(ctx context.Context, c Credentials) (domain.Caller, error) {
	if len(a.verifiers) == 0 {
		return domain.Caller{}, ErrNotMine
	}

	hash, now := Hash(c.Bearer+"\x00"+c.Cookie), a.now()
	if caller, ok := a.cache.get(hash, now); ok {
		return caller, nil
	}

	epoch := a.cache.currentEpoch()
	for _, v := range a.verifiers {
		caller, err := v.Verify(ctx, c)
		if err == nil {
			caller = bounded(caller)
			a.cache.put(hash, caller, caller.ExpiresAt, now, epoch)
		}

		if !errors.Is(err, ErrNotMine) {
			return caller, err
		}
	}

	return domain.Caller{}, ErrNotMine
}

func (a *Authenticator) byKey(ctx context.Context, ip, plaintext string) (domain.Caller, error) {
	hash := Hash(plaintext)

	now := a.now()
	if caller, ok := a.cache.get(hash, now); ok {
		a.uses.note(caller.KeyID, domain.KeyUse{At: now, IP: ip})
		return caller, nil
	}

	epoch := a.cache.currentEpoch()

	user, key, found, err := a.keys.KeyByHash(ctx, hash[:])
	if err != nil {
		return domain.Caller{}, err
	}

	if !found {
		return domain.Caller{}, Unauthorized()
	}

	if err := a.known(user); err != nil {
		return domain.Caller{}, err
	}

	caller := bounded(domain.Caller{User: user, KeyID: key.ID, Scopes: key.Scopes, ExpiresAt: key.ExpiresAt})
	a.cache.put(hash, caller, key.ExpiresAt, now, epoch)
	a.uses.note(key.ID, domain.KeyUse{At: now, IP: ip})

	return caller, nil
}

// bounded removes the administrator right of a caller whose credential's scopes do not include
// it. Code after the edge checks the user, not the scopes.
func bounded(caller domain.Caller) domain.Caller {
	caller.User.Administrator = caller.User.Administrator && Allows(caller, Admin)

	return caller
}

// Alive is AllAlive for one caller.
func (a *Authenticator) Alive(ctx context.Context, caller domain.Caller) bool {
	return a.AllAlive(ctx, []domain.Caller{caller})[0]
}

// AllAlive reports which of the earlier authenticated callers are still valid: long-lived
// connections check it periodically. A caller who has lost the administrator right is not:
// connections opened with that right end, and the caller can reconnect without it. While the
// database is unavailable all callers are valid.
func (a *Authenticator) AllAlive(ctx context.Context, callers []domain.Caller) []bool {
	alive := make([]bool, len(callers))
	cached, ended := a.cache.holding(callers, a.now()), a.ended(ctx, callers)

	var (
		asked  []domain.Caller
		places []int
	)

	for i, caller := range callers {
		switch {
		case caller.KeyID != "" && a.known(caller.User) != nil, caller.Grant != "" && ended[caller.Grant]:
		case caller.KeyID != "" && cached.holds(caller):
			alive[i] = true
		default:
			asked, places = append(asked, caller), append(places, i)
		}
	}

	if len(asked) == 0 {
		return alive
	}

	answers, err := a.keys.CredentialsAlive(ctx, asked)
	for n, i := range places {
		alive[i] = err != nil || answers[n]
	}

	return alive
}

// ended returns the sessions and tokens of the identity service, by Caller.Grant, that have
// ended.
func (a *Authenticator) ended(ctx context.Context, callers []domain.Caller) map[string]bool {
	var grants []string

	for _, caller := range callers {
		if caller.Grant != "" {
			grants = append(grants, caller.Grant)
		}
	}

	if len(grants) == 0 {
		return nil
	}

	ended := map[string]bool{}

	for _, v := range a.verifiers {
		liveness, ok := v.(Liveness)
		if !ok {
			continue
		}

		alive, err := liveness.Alive(ctx, grants)
		if err != nil {
			continue
		}

		for _, grant := range grants {
			ended[grant] = ended[grant] || !slices.Contains(alive, grant)
		}
	}

	return ended
}

// Forget applies a change of rights immediately in this process: the key, or the keys of the
// user, are looked up again.
func (a *Authenticator) Forget(_ context.Context, change domain.RightsChange) {
	if change.KeyID == "" && change.UserID == "" {
		return
	}

	a.cache.forget(func(c domain.Caller) bool {
		return change.KeyID != "" && c.KeyID == change.KeyID || change.UserID != "" && c.User.ID == change.UserID
	})
}
