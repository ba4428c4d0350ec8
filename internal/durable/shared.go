package durable

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// AbandonAfter is how long repeatable work continues without an attempt that waits for it. The
// next attempt arrives within the maximum interval of its retry policy; none arrives after the
// termination of its run.
const AbandonAfter = 30 * time.Second

// ErrDraining is the cause of work that is aborted because its worker shuts down.
var ErrDraining = errors.New("the worker is shutting down")

// DrainPause is the delay until another worker takes over work from a worker that shuts down.
const DrainPause = 100 * time.Millisecond

// Shared runs work that outlives the attempt that started it. When the server abandons an attempt
// while its work still runs in this process, the next attempt joins that work. The zero value is
// ready to use.
type Shared[K comparable, Out any] struct {
	mu      sync.Mutex
	running map[K]*sharedWork[Out]
}

// sharedWork is running work. out and err can be read once over is closed; Shared.mu guards the
// rest.
type sharedWork[Out any] struct {
	abort   context.CancelCauseFunc
	aborted bool
	waiting int // attempts
	over    chan struct{}
	out     Out
	err     error
}

// Run heartbeats and runs work, or joins the work of an earlier attempt with the same key. The
// context of work has the values of the attempt that started it. It is cancelled when an attempt
// that waits for it is cancelled or times out, when the worker has shut down, or when no attempt
// has waited for it for the duration of abandon; with 0 it runs to its end.
func (s *Shared[K, Out]) Run(ctx context.Context, key K, abandon time.Duration, work func(context.Context) (Out, error)) (Out, error) {
	attempt, stop := Heartbeat(ctx)
	defer stop()

	for {
		joined, ending := s.join(ctx, key, work)
		select {
		case <-joined.over:
		case <-attempt.Done():
			cause := context.Cause(attempt)
			if errors.Is(cause, ErrAttemptLost) {
				s.leave(key, joined, abandon)

				var none Out

				return none, cause
			}

			s.end(joined, cause)
			<-joined.over
		}

		if !ending || attempt.Err() != nil {
			return joined.out, joined.err
		}
	}
}

// join returns the work to wait for. ending reports that the work was already aborted: the
// attempt must ignore its result and run the work again.
func (s *Shared[K, Out]) join(ctx context.Context, key K, work func(context.Context) (Out, error)) (w *sharedWork[Out], ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if w = s.running[key]; w != nil {
		w.waiting++
		return w, w.aborted
	}

	w = &sharedWork[Out]{waiting: 1, over: make(chan struct{})}
	ctx, w.abort = context.WithCancelCause(context.WithoutCancel(ctx))

	if s.running == nil {
		s.running = map[K]*sharedWork[Out]{}
	}

	s.running[key] = w
	go func() {
		defer w.abort(nil)

		w.out, w.err = guarded(ctx, work)

		s.mu.Lock()
		delete(s.running, key)
		s.mu.Unlock()
		close(w.over)
	}()

	return w, false
}

// guarded turns a panic into an error, as the SDK does for activities that run in
// its own goroutines.
func guarded[Out any](ctx context.Context, work func(context.Context) (Out, error)) (out Out, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			activity.GetLogger(ctx).Error("activity panicked", "panic", fault, "stack", string(debug.Stack()))
			err = fmt.Errorf("the activity panicked: %v", fault)
		}
	}()

	return work(ctx)
}

// leave removes a lost attempt from its work. Work without attempts is aborted after abandon,
// unless another attempt has joined it.
func (s *Shared[K, Out]) leave(key K, w *sharedWork[Out], abandon time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()

	w.waiting--
	if w.waiting > 0 || abandon == 0 {
		return
	}

	time.AfterFunc(abandon, func() {
		s.mu.Lock()
		defer s.mu.Unlock()

		if w.waiting == 0 && s.running[key] == w {
			w.aborted = true
			w.abort(ErrAttemptLost)
		}
	})
}

func (s *Shared[K, Out]) end(w *sharedWork[Out], cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	w.aborted = true
	w.abort(cause)
}

// Wait waits until no work runs, or ctx is cancelled. It must be called after the worker has
// stopped.
func (s *Shared[K, Out]) Wait(ctx context.Context) {
	for {
		var left *sharedWork[Out]

		s.mu.Lock()
		for _, left = range s.running {
			break
		}
		s.mu.Unlock()

		if left == nil {
			return
		}

		select {
		case <-left.over:
		case <-ctx.Done():
			return
		}
	}
}
