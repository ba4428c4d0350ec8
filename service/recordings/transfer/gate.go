package transfer

import (
	"context"

	"everloop/domain"
	"everloop/internal/limit"
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
type limiter struct{ running limit.Keyed[string] }

// enter takes one of all slots, of which one owner may have own, until leave is called.
// Without a free one it reports false.
func (l *limiter) enter(ownerID string, all, own int) (leave func(), ok bool) {
	leave, err := l.running.Try(limit.Bound[string]{Max: all}, limit.Bound[string]{Key: "user " + ownerID, Max: own})
	return leave, err == nil
}

// wait waits for one of all slots, which release frees.
func (l *limiter) wait(ctx context.Context, all int) (release func(), err error) {
	if release, err = l.running.Acquire(ctx, limit.Bound[string]{Max: all}); err != nil {
		return nil, context.Cause(ctx)
	}

	return release, nil
}
