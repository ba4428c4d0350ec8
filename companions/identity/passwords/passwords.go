// Package passwords hashes passwords and compares them with hashes, with bounded concurrency.
// It must not depend on users.
package passwords

import (
	"context"
	"errors"
	"net/http"

	"github.com/alexedwards/argon2id"

	"everloop/companions/edge"
	"everloop/internal/limit"
)

// Memory is the memory of a password's hash, in KiB: with one pass and one thread, as OWASP
// recommends.
const Memory = 46 << 10

// maxWaiting bounds the requests that wait for a slot to hash.
const maxWaiting = 256

// Hasher computes hashes of passwords with bounded concurrency: each needs much memory and a
// processor.
type Hasher struct {
	params argon2id.Params
	turns  *limit.Queue
	dummy  string // of no password: an unknown user takes as long as a wrong password
}

// NewHasher returns a new Hasher that computes at most maxConcurrent hashes concurrently, each
// with the given memory in KiB.
func NewHasher(maxConcurrent int, memory uint32) *Hasher {
	params := argon2id.Params{Memory: memory, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

	dummy, err := argon2id.CreateHash("", &params)
	if err != nil {
		panic("passwords: " + err.Error()) // the system has no randomness
	}

	return &Hasher{params: params, turns: limit.NewQueue(limit.QueueConfig{Slots: maxConcurrent, Waiting: maxWaiting}), dummy: dummy}
}

// within runs f when a slot is free.
func (h *Hasher) within(ctx context.Context, f func() error) error {
	release, err := h.turns.Acquire(ctx, "")
	if errors.Is(err, limit.ErrFull) {
		busy := edge.Refuse(http.StatusServiceUnavailable, "dependency_unavailable",
			"checking of passwords is not available, retry in some seconds")
		busy.RetryAfter = 2

		return busy
	}

	if err != nil {
		return err
	}
	defer release()

	return f()
}

// Hash returns the hash of a password, with its salt and parameters.
func (h *Hasher) Hash(ctx context.Context, password string) (hash string, err error) {
	err = h.within(ctx, func() (err error) {
		hash, err = argon2id.CreateHash(password, &h.params)
		return err
	})

	return hash, err
}

// Matches reports whether a password has that hash; an empty hash never matches and takes as
// long.
func (h *Hasher) Matches(ctx context.Context, password, hash string) (held bool, err error) {
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
	Min = 10
	Max = 256
)
