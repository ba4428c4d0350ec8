package secrets

import (
	"strings"
	"sync"
	"time"

	"everloop/domain"
)

const (
	// recentFor is the maximum age of cached buckets.
	recentFor = 5 * time.Second
	// maxRecent is the maximum number of cached sets of buckets.
	maxRecent = 1000
)

// Recent caches the buckets of tools for a moment, so that the tools of a loop do not read them
// each. A change in this process takes effect immediately, a change in another process after
// recentFor.
type Recent struct {
	mu      sync.Mutex
	kept    map[recentKey]recentBuckets
	changes int
}

type recentKey struct{ userID, names string }

type recentBuckets struct {
	buckets []domain.EnvBucket
	until   time.Time
}

// NewRecent returns a new, empty Recent.
func NewRecent() *Recent { return &Recent{kept: map[recentKey]recentBuckets{}} }

// use returns the named buckets of a user, from the cache or the store.
func (r *Recent) use(userID string, names []string, read func() ([]domain.EnvBucket, error)) ([]domain.EnvBucket, error) {
	if r == nil {
		return read()
	}

	key := recentKey{userID, strings.Join(names, "\x00")}

	r.mu.Lock()
	kept, found := r.kept[key]
	changes := r.changes
	r.mu.Unlock()

	if found && time.Now().Before(kept.until) {
		return kept.buckets, nil
	}

	until := time.Now().Add(recentFor)
	buckets, err := read()

	r.mu.Lock()
	defer r.mu.Unlock()

	if err == nil && r.changes == changes {
		if len(r.kept) >= maxRecent {
			clear(r.kept)
		}

		r.kept[key] = recentBuckets{buckets, until}
	}

	return buckets, err
}

// forget clears the cache: a bucket was changed.
func (r *Recent) forget() {
	if r == nil {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	r.changes++
	clear(r.kept)
}
