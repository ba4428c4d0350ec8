package auth

import (
	"sync"
	"time"

	"everloop/domain"
)

// cacheLimit bounds the cache; a process that sees more keys within seconds starts with an
// empty one.
const cacheLimit = 10_000

// cache caches the owners of keys for seconds. Wrong keys are not cached: they all cost the
// same.
type cache struct {
	keep time.Duration

	mu      sync.RWMutex
	entries map[[32]byte]cached
	epoch   uint64 // counts revocations: a lookup that started before one is not cached
}

type cached struct {
	caller domain.Caller
	until  time.Time
}

func newCache(keep time.Duration) *cache {
	return &cache{keep: keep, entries: map[[32]byte]cached{}}
}

func (c *cache) get(hash [32]byte, now time.Time) (domain.Caller, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()

	e, ok := c.entries[hash]

	return e.caller, ok && now.Before(e.until)
}

func (c *cache) currentEpoch() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()

	return c.epoch
}

func (c *cache) put(hash [32]byte, caller domain.Caller, expires *time.Time, now time.Time, epoch uint64) {
	until := now.Add(c.keep)
	if expires != nil && expires.Before(until) {
		until = *expires
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.epoch != epoch {
		return
	}

	if len(c.entries) >= cacheLimit {
		clear(c.entries)
	}

	c.entries[hash] = cached{caller, until}
}

// heldKeys are the valid keys, with whether their users are administrators.
type heldKeys map[string]bool

// holds reports whether the key of a caller is cached as valid, with the administrator right
// that the caller was authenticated with.
func (h heldKeys) holds(caller domain.Caller) bool {
	administrator, held := h[caller.KeyID]
	return held && (administrator || !caller.User.Administrator)
}

// holding returns the callers' keys that are cached as valid.
func (c *cache) holding(callers []domain.Caller, now time.Time) heldKeys {
	asked := make(map[string]bool, len(callers))
	for _, caller := range callers {
		asked[caller.KeyID] = true
	}

	c.mu.RLock()
	defer c.mu.RUnlock()

	keys := heldKeys{}

	for _, e := range c.entries {
		if asked[e.caller.KeyID] && now.Before(e.until) {
			keys[e.caller.KeyID] = e.caller.User.Administrator
		}
	}

	return keys
}

func (c *cache) forget(which func(domain.Caller) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.epoch++
	for hash, e := range c.entries {
		if which(e.caller) {
			delete(c.entries, hash)
		}
	}
}
