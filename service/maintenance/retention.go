package maintenance

import (
	"context"
	"time"
)

// Pruning removes or settles what has come to its end, at most limit rows at once, and
// says how many it was.
type Pruning func(ctx context.Context, limit int) (removed int64, err error)

// How many rows one transaction of a pruning removes, and the pause between two, so
// that other work goes first.
const (
	pruneBatch = 500
	prunePause = 20 * time.Millisecond
)

// Prune gives the function of a job that prunes batch by batch until nothing is left
// or its time is over.
func Prune(prune Pruning) func(ctx context.Context) error { return PruneBy(pruneBatch, prune) }

// PruneBy is Prune in batches of another size, for rows that each take many others along.
func PruneBy(batch int, prune Pruning) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			removed, err := prune(ctx, batch)
			if err != nil || removed < int64(batch) {
				return err
			}

			if !sleep(ctx, prunePause) {
				return ctx.Err()
			}
		}
	}
}

// PruneOlder is Prune for what is kept for some time; nothing is removed when that is
// not above zero.
func PruneOlder(
	age time.Duration,
	prune func(ctx context.Context, age time.Duration, limit int) (int64, error),
) func(ctx context.Context) error {
	if age <= 0 {
		return func(context.Context) error { return nil }
	}

	return Prune(func(ctx context.Context, limit int) (int64, error) { return prune(ctx, age, limit) })
}
