package secrets

import (
	"strings"
	"sync"
	"time"

	"everloop/domain"
)

const (
	// recentFor is how long the buckets that a tool was given are used for others.
	recentFor = 5 * time.Second
	// maxRecent bounds what is kept, in sets of buckets.
	maxRecent = 1000
)

// Recent keeps the buckets that tools were given for a moment, so that the tools of a
// loop do not read them each. A change in this process ends that at once, one in
// another process after recentFor.
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

// NewRecent returns one that holds nothing.
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

// forget ends the use of all that is kept: a bucket was changed.
func (r *Recent) forget() {
	if r == nil {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	r.changes++
	clear(r.kept)
}
