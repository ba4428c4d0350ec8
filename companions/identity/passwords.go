package identity

import (
	"context"
	"crypto/sha256"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
)

// hashing is the cost of a password's hash: 46 MiB and one thread, as OWASP advises.
var hashing = argon2id.Params{Memory: 46 << 10, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// mostWaiting bounds the requests that wait for their turn to hash.
const mostWaiting = 256

// hasher computes hashes of passwords, few at a time: each takes much memory and a
// processor, which the rest of the machine needs too.
type hasher struct {
	turn    chan struct{} // holds one entry for each hash being computed
	waiting chan struct{}
	dummy   string // of no password: an unknown user takes as long as a wrong password
}

func newHasher(atOnce int) *hasher {
	dummy, err := argon2id.CreateHash("", &hashing)
	if err != nil {
		panic("identity: " + err.Error()) // the system has no randomness
	}

	return &hasher{turn: make(chan struct{}, atOnce), waiting: make(chan struct{}, mostWaiting), dummy: dummy}
}

// within runs f in its turn.
func (h *hasher) within(ctx context.Context, f func() error) error {
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		return busy("checking of passwords")
	}

	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}

	return f()
}

// hash gives the hash of a password, with its salt and parameters.
func (h *hasher) hash(ctx context.Context, password string) (hash string, err error) {
	err = h.within(ctx, func() (err error) {
		hash, err = argon2id.CreateHash(password, &hashing)
		return err
	})

	return hash, err
}

// matches reports whether a password has that hash; an empty hash matches nothing and
// takes as long.
func (h *hasher) matches(ctx context.Context, password, hash string) (held bool, err error) {
	known := hash != ""
	if !known {
		hash = h.dummy
	}

	err = h.within(ctx, func() (err error) {
		held, err = argon2id.ComparePasswordAndHash(password, hash)
		return err
	})

	return held && known, err
}

// Lengths of a password, in characters and in bytes.
const (
	minPassword = 10
	maxPassword = 256
)

func checkPassword(field, password string) error {
	if utf8.RuneCountInString(password) < minPassword {
		return invalid(field, "must have at least %d characters", minPassword)
	}

	if len(password) > maxPassword {
		return invalid(field, "must have at most %d bytes", maxPassword)
	}

	return nil
}

// secretHash is how a random secret is kept: it has too many bits to be guessed, so that
// a plain SHA-256 suffices.
func secretHash(secret string) []byte {
	hash := sha256.Sum256([]byte(secret))
	return hash[:]
}
