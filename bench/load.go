package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// load is what came of many requests at once.
type load struct {
	took sample // ms, of each request
	wall time.Duration
}

func (l load) perSecond() float64 { return float64(len(l.took)) / l.wall.Seconds() }

// requests makes n GET requests, so many of them at once; path gives the i-th.
func (c *client) requests(ctx context.Context, n, atOnce int, path func(i int) string) (load, error) {
	var (
		l      load
		mu     sync.Mutex
		failed error
		next   atomic.Int64
		group  sync.WaitGroup
	)

	began := time.Now()

	for range atOnce {
		group.Go(func() {
			var took sample

			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				sent := time.Now()
				err := c.call(ctx, http.MethodGet, path(i), nil, nil)

				took.add(time.Since(sent))

				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()

					return
				}
			}

			mu.Lock()
			defer mu.Unlock()

			l.took = append(l.took, took...)
		})
	}

	group.Wait()

	l.wall = time.Since(began)

	return l, failed
}

// bestOf repeats a measurement beside its baseline and keeps of each the run that
// went best: on a shared machine the other runs measure its other users more than
// the code.
func bestOf(rounds int, better func(a, b load) bool, runs ...func() (load, error)) ([]load, error) {
	best := make([]load, len(runs))
	for round := range rounds {
		for i, run := range runs {
			l, err := run()
			if err != nil {
				return nil, err
			}

			if round == 0 || better(l, best[i]) {
				best[i] = l
			}
		}
	}

	return best, nil
}

func quicker(a, b load) bool { return a.took.quantile(0.95) < b.took.quantile(0.95) }
func more(a, b load) bool    { return a.perSecond() > b.perSecond() }
