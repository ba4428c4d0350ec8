package transfer

import (
	"context"
	"sync"

	"everloop/domain"
)

// Bounds of what runs concurrently.
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
	// maxExports and maxOwnExports are of one process: exports that are read or sent, of
	// all users and of one. Each takes the space of its session on the disk.
	maxExports    = 4
	maxOwnExports = 2
	// retryTooMany is what a client that is refused waits, in seconds.
	retryTooMany = 10
)

func tooManyImports() *domain.Error {
	return tooMany("too_many_imports", "too many imports are in progress; try again when one of them has finished")
}

func tooManyExports() *domain.Error {
	return tooMany("too_many_exports", "too many exports are in progress; try again when one of them has finished")
}

func tooMany(code, message string) *domain.Error {
	e := domain.Newf(domain.RateLimited, code, "%s", message)
	e.RetryAfter = retryTooMany

	return e
}

// limiter bounds what a process does concurrently for all users and for one. The zero value
// is ready.
type limiter struct {
	mu     sync.Mutex
	all    int
	owners map[string]int
}

// enter takes one of all slots, of which one owner may have own, until leave is called.
// Without a free one it reports false.
func (l *limiter) enter(ownerID string, all, own int) (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.all >= all || l.owners[ownerID] >= own {
		return nil, false
	}

	if l.owners == nil {
		l.owners = map[string]int{}
	}

	l.all++
	l.owners[ownerID]++

	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()

		l.all--
		if l.owners[ownerID]--; l.owners[ownerID] == 0 {
			delete(l.owners, ownerID)
		}
	}), true
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
