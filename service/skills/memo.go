package skills

import (
	"hash/maphash"
	"sync"
	"time"
)

// memo remembers values for a time, or until there are too many of them.
type memo[K comparable, V any] struct {
	most int
	keep time.Duration // 0: as long as there is room

	mu      sync.Mutex
	values  map[K]remembered[V]
	forgets int // counted: what was read before the last one is not kept
}

type remembered[V any] struct {
	value V
	until time.Time
}

func newMemo[K comparable, V any](most int, keep time.Duration) *memo[K, V] {
	return &memo[K, V]{most: most, keep: keep, values: map[K]remembered[V]{}}
}

func (m *memo[K, V]) get(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	found, ok := m.values[key]
	if ok && m.keep > 0 && time.Now().After(found.until) {
		delete(m.values, key)

		ok = false
	}

	return found.value, ok
}

// read returns a remembered value, or reads it.
func (m *memo[K, V]) read(key K, read func() (V, error)) (V, error) {
	m.mu.Lock()
	forgets := m.forgets
	m.mu.Unlock()

	value, known := m.get(key)
	if known {
		return value, nil
	}

	value, err := read()

	m.mu.Lock()
	defer m.mu.Unlock()

	if err == nil && m.forgets == forgets {
		m.keepFor(key, value, m.keep)
	}

	return value, err
}

func (m *memo[K, V]) put(key K, value V) { m.putFor(key, value, m.keep) }

func (m *memo[K, V]) putFor(key K, value V, keep time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.keepFor(key, value, keep)
}

// keepFor remembers a value; m.mu is held.
func (m *memo[K, V]) keepFor(key K, value V, keep time.Duration) {
	if len(m.values) >= m.most {
		clear(m.values) // what is in use comes back at once
	}

	m.values[key] = remembered[V]{value, time.Now().Add(keep)}
}

func (m *memo[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.forgets++
	delete(m.values, key)
}

// stripes are locks by name.
type stripes struct {
	once  sync.Once
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func (s *stripes) of(name string) *sync.Mutex {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	return &s.locks[maphash.String(s.seed, name)%uint64(len(s.locks))]
}
