package target

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"everloop/bench/result"
)

// Load is what came of many requests at once.
type Load struct {
	Took result.Sample // ms, of each request
	wall time.Duration
}

// PerSecond is how many requests were answered in a second.
func (l Load) PerSecond() float64 { return float64(len(l.Took)) / l.wall.Seconds() }

// Requests makes n GET requests, so many of them at once; path gives the i-th.
func (c *Client) Requests(ctx context.Context, n, maxConcurrent int, path func(i int) string) (Load, error) {
	var (
		l      Load
		mu     sync.Mutex
		failed error
		next   atomic.Int64
		group  sync.WaitGroup
	)

	began := time.Now()

	for range maxConcurrent {
		group.Go(func() {
			var took result.Sample

			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				sent := time.Now()
				err := c.Call(ctx, http.MethodGet, path(i), nil, nil)

				took.Add(time.Since(sent))

				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()

					return
				}
			}

			mu.Lock()
			defer mu.Unlock()

			l.Took = append(l.Took, took...)
		})
	}

	group.Wait()

	l.wall = time.Since(began)

	return l, failed
}

// BestOf repeats a measurement beside its baseline and keeps of each the run that
// went best: on a shared machine the other runs measure its other users more than
// the code.
func BestOf(rounds int, better func(a, b Load) bool, runs ...func() (Load, error)) ([]Load, error) {
	best := make([]Load, len(runs))
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

// Quicker compares loads by the time that 95 % of the requests keep.
func Quicker(a, b Load) bool { return a.Took.Quantile(0.95) < b.Took.Quantile(0.95) }

// More reports whether a made more runs a second than b.
func More(a, b Load) bool { return a.PerSecond() > b.PerSecond() }
