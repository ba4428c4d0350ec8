package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"everloop/internal/retry"
)

// How many rows one transaction of a retention removes, and the pause between two, so
// that other work goes first.
const (
	pruneBatch = 500
	prunePause = 20 * time.Millisecond
)

// Retention removes rows that are no longer needed.
type Retention struct {
	Of string // what is removed, for the log
	// Prune removes at most limit rows, and returns how many it removed.
	Prune func(ctx context.Context, limit int) (removed int64, err error)
	// Batch is the limit of one call, for rows that each take many others along; 0: 500.
	Batch int
}

// Kept returns a retention that removes rows older than age; with an age of 0 or less it keeps
// them all.
func Kept(of string, age time.Duration, prune func(ctx context.Context, age time.Duration, limit int) (int64, error)) Retention {
	return Retention{Of: of, Prune: func(ctx context.Context, limit int) (int64, error) {
		if age <= 0 {
			return 0, nil
		}

		return prune(ctx, age, limit)
	}}
}

// Prune returns the function of a job that carries out retentions one after another, each
// in batches until nothing is left. One that fails does not keep others from their turn.
func Prune(retentions ...Retention) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var faults []error

		for _, retention := range retentions {
			if err := retention.run(ctx); err != nil {
				faults = append(faults, fmt.Errorf("prune %s: %w", retention.Of, err))
			}
		}

		return errors.Join(faults...)
	}
}

func (r Retention) run(ctx context.Context) error {
	batch := r.Batch
	if batch == 0 {
		batch = pruneBatch
	}

	for {
		removed, err := r.Prune(ctx, batch)
		if err != nil || removed < int64(batch) {
			return err
		}

		if !retry.Wait(ctx, prunePause) {
			return ctx.Err()
		}
	}
}

// All returns the function of a job that runs functions concurrently.
func All(runs ...func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var faults faults

		doAll(ctx, runs, len(runs), func(run func(ctx context.Context) error) { faults.add(run(ctx)) })

		return faults.joined()
	}
}
