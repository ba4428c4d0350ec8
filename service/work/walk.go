package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// pageSize is how many items of a list are read at once.
const pageSize = 200

// walk goes through a list of the database by its keys, so that an item that keeps
// failing keeps no other from its turn. A walk that is interrupted continues where it
// was, and so does one behind a walk that did as much as it may. One goroutine uses it.
type walk[T any] struct {
	list  func(ctx context.Context, after string, limit int) ([]T, error)
	key   func(T) string
	after string
	most  int // items of one walk, rounded up to pages; 0: all
}

// each does something with every item from where the last walk was interrupted to the
// end of the list, with a number of items at once. It continues after an item that
// fails.
func (w *walk[T]) each(ctx context.Context, maxConcurrent int, do func(ctx context.Context, item T) error) error {
	var faults faults

	size := pageSize
	if w.most > 0 {
		size = min(size, w.most)
	}

	for done := 0; ctx.Err() == nil; {
		page, err := w.list(ctx, w.after, size)
		if err != nil {
			faults.add(err)
			break
		}

		doAll(ctx, page, maxConcurrent, func(item T) { faults.add(do(ctx, item)) })

		if ctx.Err() != nil {
			break // the page is done again
		}

		if len(page) < size {
			w.after = ""
			break
		}

		w.after = w.key(page[len(page)-1])

		if done += len(page); w.most > 0 && done >= w.most {
			break
		}
	}

	return faults.joined()
}

func doAll[T any](ctx context.Context, items []T, maxConcurrent int, do func(T)) {
	slots := make(chan struct{}, maxConcurrent)

	var running sync.WaitGroup

	for _, item := range items {
		if ctx.Err() != nil {
			break
		}

		slots <- struct{}{}

		running.Go(func() {
			defer func() { <-slots }()

			do(item)
		})
	}

	running.Wait()
}

// maxFaults is how many errors of one walk are reported in full.
const maxFaults = 5

// faults collects errors, the first few with their texts.
type faults struct {
	mu    sync.Mutex
	first []error
	more  int
}

func (f *faults) add(err error) {
	if err == nil {
		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if len(f.first) < maxFaults {
		f.first = append(f.first, err)
		return
	}

	f.more++
}

func (f *faults) joined() error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.more > 0 {
		return errors.Join(append(f.first, fmt.Errorf("and %d more errors", f.more))...)
	}

	return errors.Join(f.first...)
}
