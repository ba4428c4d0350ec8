package transfer

import (
	"context"
	"sync"

	"everloop/domain"
)

// Bounds of imports at once.
const (
	// maxOpen is of one user: archives on their way and imports under way, in all
	// processes.
	maxOpen = 4
	// maxUploads and maxOwnUploads are of one process: archives on their way and
	// previews, of all users and of one.
	maxUploads    = 16
	maxOwnUploads = 4
	// maxReading is how many archives one process checks or imports at once. Each
	// takes up to some hundred MB of memory; the others wait.
	maxReading = 2
	// retryTooMany is what a client that is refused waits, in seconds.
	retryTooMany = 10
)

func tooMany() *domain.Error {
	e := domain.Newf(domain.RateLimited, "too_many_imports", "too many imports are under way; try again when one of them has ended")
	e.RetryAfter = retryTooMany

	return e
}

// entrance bounds the uploads of a process. The zero value is ready.
type entrance struct {
	mu     sync.Mutex
	all    int
	owners map[string]int
}

// enter counts an upload of an owner in, or refuses it.
func (e *entrance) enter(ownerID string) (leave func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.all >= maxUploads || e.owners[ownerID] >= maxOwnUploads {
		return nil, tooMany()
	}

	if e.owners == nil {
		e.owners = map[string]int{}
	}

	e.all++
	e.owners[ownerID]++

	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()

		e.all--
		if e.owners[ownerID]--; e.owners[ownerID] == 0 {
			delete(e.owners, ownerID)
		}
	}, nil
}

// turns lets some do what takes much memory, and the others wait. The zero value is
// ready.
type turns struct {
	once  sync.Once
	taken chan struct{}
}

// wait waits for a turn, which release ends.
func (t *turns) wait(ctx context.Context) (release func(), err error) {
	t.once.Do(func() { t.taken = make(chan struct{}, maxReading) })

	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
